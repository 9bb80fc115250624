"""What README and docs say can be done: their commands, options and links exist."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from loadgen.cli.main import VERBS, make_app

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
# A command at the beginning of a line of a code block, or within backquotes.
COMMAND = re.compile(r"^loadgen .*$|(?<=`)loadgen [^`]+(?=`)", re.MULTILINE)
WHOLE = typer.main.get_command(make_app(VERBS))


def commands() -> list[tuple[str, str]]:
    return [
        (page.name, text.split("  #")[0].split(" | ")[0].strip())
        for page in PAGES
        for text in COMMAND.findall(page.read_text(encoding="utf-8").replace("\\\n", " "))
    ]


def options_of(words: list[str]) -> set[str] | None:
    """The options of the verb that `words` begin with; None for a verb that hands its flags on."""
    command = WHOLE
    while hasattr(command, "commands"):
        if not words:
            return set()
        name = words.pop(0)
        assert name in command.commands, f"no verb {name}"
        command = command.commands[name]
    if command.name == "serve":
        return None
    return {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]} | {
        "--help",
        "-h",
    }


@pytest.mark.parametrize(("page", "text"), commands())
def test_every_command_in_the_docs_exists_with_its_options(page: str, text: str) -> None:
    words = shlex.split(text)[1:]
    if not words or words[0].startswith(("-", "[")) or not words[0].isalpha():
        return  # `loadgen --version`, or prose
    known = options_of(words)
    used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert known is None or used <= known, f"{page}: {text}"


def test_the_docs_name_commands_at_all() -> None:
    assert len(commands()) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_page_of_the_docs_is_reachable_from_the_readme() -> None:
    reached: set[Path] = set()
    to_follow = [ROOT / "README.md"]
    while to_follow:
        page = to_follow.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8"))
        to_follow += {(page.parent / link).resolve() for link in links} - reached
    assert set((ROOT / "docs").glob("*.md")) <= reached


def test_the_manifest_for_kubernetes_agrees_with_itself_and_with_the_command() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML comes with Ray: pip install 'loadgen[ray]'")
    job = yaml.safe_load((ROOT / "docs" / "rayjob.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    words = shlex.split(job["spec"]["entrypoint"])
    known = options_of(words[1:])
    given = {name: value for name, value in pairwise(words) if name.startswith("--")}
    assert words[0] == "loadgen" and known is not None and set(given) <= known
    cluster = job["spec"]["rayClusterSpec"]
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    seats = workers["replicas"] * int(workers["rayStartParams"]["num-cpus"])
    assert (seats, head["rayStartParams"]["num-cpus"]) == (int(given["--workers"]), "0")
    images = set()
    for group in (head, workers):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        images.add(container["image"])
        assert container["resources"]["requests"] == container["resources"]["limits"]
        (mount,) = container["volumeMounts"]
        assert [volume["name"] for volume in pod["volumes"]] == [mount["name"]]
        for place in (words[2], given["--records-to"], given["--out-dir"]):
            assert place.startswith(mount["mountPath"] + "/")
    assert len(images) == 1
    (key,) = head["template"]["spec"]["containers"][0]["env"]
    assert key["name"] == "LOADGEN_API_KEY" and "secretKeyRef" in key["valueFrom"]
    # Pods that keep apart from each other know each other by this.
    (apart,) = workers["template"]["spec"]["affinity"]["podAntiAffinity"].popitem()[1]
    labels = workers["template"]["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items()
