"""Complete what follows from the registry of learners: run `python tests/learner_lists.py` after a learner was added.

It adds the learner to the lists of the docs, described by the first sentence of its page, stores one for the tests of
files, and rewrites tests/public_surface.txt. Learners that are listed already keep their text.
"""

import sys
from pathlib import Path

import delaytron as dt
from delaytron.learners.arguments import own_parameters

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"


def page_summary(name):
    """Return the first sentence of a learner's page, without its full stop."""
    return (DOCS / "learners" / f"{name}.md").read_text().split("\n\n")[1].replace("\n", " ").removesuffix(".")


def with_rows(guide, learners, summary):
    """Return docs/howto/choosing.md with a row for each learner in the table of all learners, before that of Bold."""
    for name, cls in learners.items():
        if f"| [`{name}`](../learners/{name}.md)" not in guide:
            parameters = ", ".join(f"`{parameter}`" for parameter in own_parameters(cls)) or "none"
            row = f"\n| [`{name}`](../learners/{name}.md) | {summary(name)} | {parameters} |"
            last = "\n| [`Bold`](../learners/bold.md) |"
            guide = guide.replace(last, row + last)
    return guide


def with_entries(index, learners, summary):
    """Return docs/explanation/learners.md with each learner at the end of a list of learners with the same feedback."""
    for name, cls in learners.items():
        if f"(../learners/{name}.md)" not in index:
            alike = [one for one, other in learners.items() if other.feedback_type == cls.feedback_type]
            listed = [line for line in index.splitlines() if any(f"* [`{one}`]" in line for one in alike)]
            entry = f"* [`{name}`](../learners/{name}.md): {summary(name)}"
            index = index.replace(listed[-1], f"{listed[-1]}\n{entry}")
    return index


def with_names(api, learners):
    """Return docs/reference/api.md with the class of each learner, before LEARNERS."""
    for cls in learners.values():
        if f"\n   {cls.__name__}\n" not in api:
            api = api.replace("\n   LEARNERS\n", f"\n   {cls.__name__}\n   LEARNERS\n")
    return api


def completed(learners=dt.LEARNERS, summary=page_summary):
    """Return the pages that list all learners, by their paths in docs/, as they should be."""
    read = {path: (DOCS / path).read_text() for path in PAGES}
    return {
        GUIDE: with_rows(read[GUIDE], learners, summary),
        INDEX: with_entries(read[INDEX], learners, summary),
        API: with_names(read[API], learners),
    }


PAGES = GUIDE, INDEX, API = "howto/choosing.md", "explanation/learners.md", "reference/api.md"


def main():
    """Write everything."""
    sys.path += [str(HERE), str(HERE / "learners")]
    from fixtures import make_learners

    import public_surface

    for path, text in completed().items():
        (DOCS / path).write_text(text)
    make_learners.main()
    public_surface.STORED.write_text(public_surface.surface())


if __name__ == "__main__":
    main()
