"""``dkdist --print-completion``: a shell script that completes every command and option."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from dkdist.cli import main, parser

shtab = pytest.importorskip("shtab")


def completion_script(shell, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--print-completion", shell])
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_contains_all_commands(shell, capsys):
    text = completion_script(shell, capsys)
    commands = next(a for a in parser.build_parser()._actions if a.metavar == "COMMAND").choices
    assert all(name in text for name in commands)
    assert "--probabilities" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_and_options(tmp_path, capsys):
    (tmp_path / "c.sh").write_text(completion_script("bash", capsys))
    ask = (
        "source c.sh\n"
        "function=$(complete -p dkdist | sed 's/.*-F \\([^ ]*\\) .*/\\1/')\n"
        'COMP_WORDS=(dkdist {0}); COMP_CWORD={1}; $function dkdist; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    for words, place, expected in (
        ("pre", 1, ["predict"]),
        ("predict --prob", 2, ["--probabilities"]),
        ("info c", 2, ["c.sh"]),
    ):
        done = subprocess.run(
            ["bash", "-c", ask.format(words, place)], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.stdout.split() == expected, done.stderr


def test_missing_shtab_names_the_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit, match="2"):
        main(["--print-completion", "bash"])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "pip install 'dkdist[completion]'" in captured.err


def test_other_shells_are_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--print-completion", "fish"])
    assert "invalid choice: 'fish'" in capsys.readouterr().err
