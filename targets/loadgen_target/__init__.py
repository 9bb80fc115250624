"""The bundled inference server that loadgen measures; started as a process, never imported by loadgen."""
