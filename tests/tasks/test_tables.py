"""Recorded tables: what is refused, how they are split, and that nothing leaks."""

import pytest
import torch

from aline.errors import InputError
from aline.tasks.tables import Table, Tables, data_sets


def table(name: str, seed: int, rows: int = 12) -> Table:
    generator = torch.Generator().manual_seed(seed)
    return Table(
        name, torch.rand(rows, 2, generator=generator), torch.rand(rows, generator=generator)
    )


def many(count: int) -> list[Table]:
    return [table(f"d{i}", i) for i in range(count)]


def test_a_split_takes_every_data_set_once() -> None:
    tables = Tables.of("toy", ["a", "b"], many(20))
    sizes = {part: len(tables.part(part)) for part in ("train", "validation", "test")}
    assert sizes == {"train": 14, "validation": 2, "test": 4}


def test_a_split_does_not_depend_on_the_order_of_tables() -> None:
    forward = Tables.of("toy", ["a", "b"], many(20))
    backward = Tables.of("toy", ["a", "b"], many(20)[::-1])
    assert forward.parts == backward.parts


def test_another_seed_splits_differently() -> None:
    assert Tables.of("t", "ab", many(20)).parts != Tables.of("t", "ab", many(20), seed=1).parts


def test_copies_under_another_name_are_one_data_set_even_in_part() -> None:
    original = table("d3", 3)
    again = torch.randperm(12, generator=torch.Generator())[:7]
    copy = Table("copy", original.X[again], original.y[again])
    groups = data_sets([*many(6), copy], {})
    assert ["d3", "copy"] in groups
    assert len(groups) == 6


def test_the_same_configurations_with_other_outcomes_are_another_data_set() -> None:
    one = table("one", 0)
    other = Table("other", one.X, one.y + 0.01)
    assert data_sets([one, other], {}) == [["one"], ["other"]]


def test_aliases_name_what_tables_cannot_show() -> None:
    assert data_sets(many(3), {"d2": "d0"}) == [["d1"], ["d0", "d2"]]


@pytest.mark.parametrize("seed", range(5))
def test_no_test_data_set_is_learned_from_under_any_name(seed: int) -> None:
    tables = many(12)
    copies = [Table(f"{t.name}-copy", t.X.flip(0), t.y.flip(0)) for t in tables[::2]]
    split = Tables.of("toy", ["a", "b"], [*tables, *copies], seed=seed)
    learned = [one for part in ("train", "validation") for one in split.part(part)]
    assert split.part("test")
    assert not any(a.is_same_data(b) for a in learned for b in split.part("test"))


def test_a_given_split_loses_what_it_leaks() -> None:
    original = table("d0", 0)
    copy = Table("copy", original.X, original.y)
    parts = {"d0": "train", "d1": "train", "copy": "test"}
    split = Tables.of("toy", ["a", "b"], [original, table("d1", 1), copy], parts=parts)
    assert [one.name for one in split.part("train")] == ["d1"]
    assert [one.name for one in split.part("test")] == ["copy"]


def test_ragged_missing_and_short_tables_are_refused() -> None:
    with pytest.raises(InputError, match="X must be"):
        Table("a", torch.rand(3, 2), torch.rand(4))
    with pytest.raises(InputError, match="row 1 has a value"):
        Table("a", torch.tensor([[0.0], [torch.nan], [1.0]]), torch.rand(3))
    with pytest.raises(InputError, match="at least 2 rows"):
        Table("a", torch.rand(1, 2), torch.rand(1))
    with pytest.raises(InputError, match="must have the 2 columns"):
        Tables.of("toy", ["a", "b"], [Table("a", torch.rand(3, 3), torch.rand(3))])
    with pytest.raises(InputError, match="got a twice"):
        Tables.of("toy", ["a", "b"], [table("a", 0), table("a", 1)])


def test_repeated_configurations_are_refused_or_averaged() -> None:
    twice = Table("a", torch.tensor([[0.0], [1.0], [0.0]]), torch.tensor([0.2, 0.5, 0.4]))
    with pytest.raises(InputError, match=r"2 rows .* the first is row 0"):
        twice.check_rows_differ()
    once = twice.averaged()
    assert once.X[:, 0].tolist() == [0.0, 1.0]
    assert once.y.tolist() == pytest.approx([0.3, 0.5])


def test_shares_must_leave_something_to_learn_from() -> None:
    with pytest.raises(InputError, match="leave some"):
        Tables.of("toy", ["a", "b"], many(4), test=0.6, validation=0.5)
