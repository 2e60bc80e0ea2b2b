"""The table of claims (claims.toml), and the families of experiments that its claims are judged by."""

import dataclasses
import functools
import pathlib
import tomllib

import bbob
import crf
import draws
import hoag
import linear
import search
import verdict

HERE = pathlib.Path(__file__).resolve().parent
# A family has a class Data of its rows, MEASURES from rows to cells, and what a page shows besides.
FAMILIES = {"search": search, "linear": linear, "crf": crf, "hoag": hoag, "vf_idca": draws.VF, "harmonica": draws.HARMONICA,
            "bengio": draws.BENGIO, "bbob": bbob}


@dataclasses.dataclass(frozen=True)
class Claim:
    id: str
    family: str
    place: str
    text: str
    seeds: int
    recipe: str
    quick: bool
    parts: tuple


def load(path=HERE / "claims.toml"):
    """(claims in their order, pages). A claim with several recipes is one claim for each; the first bears the plain name."""
    with open(path, "rb") as file:
        table = tomllib.load(file)
    claims = []
    for entry in table["claim"]:
        parts = tuple(entry["part"])
        for k, recipe in enumerate(entry.get("recipes", ["map"])):
            claims.append(Claim(entry["id"] + (f"-{recipe.upper()}" if k else ""), entry["family"], entry["place"], entry["text"],
                                entry["seeds"], recipe, recipe in entry.get("quick", []), parts))
    return claims, table["page"]


def parts_of(claim, data):
    """Returns the parts of a claim, with their cells from rows, of which its verdict is made."""
    family = FAMILIES[claim.family]
    parts = []
    for part in claim.parts:
        cells = tuple(family.MEASURES[part["measure"]](data, part, claim.recipe))
        parts.append(verdict.Part(part["text"], cells, len(cells) if part["need"] == "all" else part["need"]))
    return parts


def judge_all(claims, folder):
    """{id: (parts, verdict)} from the rows in `folder`."""
    data = functools.lru_cache(maxsize=None)(lambda family: FAMILIES[family].Data(folder))
    found = {}
    for claim in claims:
        parts = parts_of(claim, data(claim.family))
        found[claim.id] = (parts, verdict.judge(parts))
    return found
