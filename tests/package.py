"""What is handed out: `make package` builds sdist and wheel in dist/ and calls this to look into both.

The wheel has the package and nothing else, the sdist what makes and tests it; neither has the paper or its
results. The wheel, unpacked, says its version.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

WHEEL, SDIST = 12e6, 14e6
"""Most bytes of each; the experts' weights are most of them."""
NEEDED = ("__init__.py", "py.typed", "cli/train.py", "report/assets/page.js", "experts/human/page.html")
NEEDED += ("experts/recipes.toml", "experts/weights/sac-Hopper-v5.safetensors")
NEEDED += ("exports/understudy_policy.py",)
TOP = {"src", "tests", "conftest.py", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile"}
TOP |= {"requirements", "pyproject.toml", "PKG-INFO", ".gitignore", "CITATION.cff", "SECURITY.md"}
TOP |= {"ARCHITECTURE.md"}


def wrong(dist: Path) -> list[str]:
    """What is wrong with the two files in a folder, in sentences."""
    wheels, sdists = sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        return [f"there are {len(wheels)} wheels and {len(sdists)} sdists in {dist}."]
    [wheel], [sdist] = wheels, sdists
    names = zipfile.ZipFile(wheel).namelist()
    told = [f"{wheel.name} lacks {name}." for name in NEEDED if f"understudy/{name}" not in names]
    info = f"{'-'.join(wheel.name.split('-')[:2])}.dist-info/"
    told += [f"{wheel.name} has {name}." for name in names if not name.startswith(("understudy/", info))]
    told += [f"{wheel.name} has {name}." for name in names if name.endswith((".pyc", ".pkl", ".pt"))]
    with tarfile.open(sdist) as archive:
        inside = [name.partition("/")[2] for name in archive.getnames()]
    tops = {name.partition("/")[0] for name in inside if name}
    told += [f"{sdist.name} has {name}." for name in sorted(tops - TOP)]
    told += [f"{sdist.name} lacks {name}." for name in sorted(TOP - tops - {".gitignore"})]
    for file, most in ((wheel, WHEEL), (sdist, SDIST)):
        if (size := file.stat().st_size) > most:
            told.append(f"{file.name} has {size / 1e6:.1f} MB; {most / 1e6:.0f} are the most.")
    return told


def version(wheel: Path) -> str:
    """What the wheel says it is, installed without what it depends on."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        command = [sys.executable, "-S", "-m", "understudy", "--version"]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return said.stdout.strip()


if __name__ == "__main__":
    dist = Path(sys.argv[1])
    told = wrong(dist)
    for sentence in told:
        print(f"package: {sentence}", file=sys.stderr)
    for file in sorted(dist.iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    said = version(next(dist.glob("*.whl")))
    print(said)
    sys.exit(bool(told) or said.split()[1] not in next(dist.glob("*.whl")).name)
