"""The page of several metrics and its rows.

  metrics_page_test.py SOURCE_DIR
"""

import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "bench" / "search"))
import metrics_page  # noqa: E402


class Page(unittest.TestCase):
    def test_is_what_its_rows_give(self) -> None:
        page = metrics_page.PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, metrics_page.render(page, metrics_page.pieces(metrics_page.ROWS)), "run metrics_page.py")

    def test_a_changed_row_changes_it(self) -> None:
        lines = metrics_page.ROWS.read_text(encoding="utf-8").splitlines()
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.csv"
            changed = []
            for line in lines:
                row = line.split(",")
                row[4] = "1e9" if row[:2] == ["branin_currin", "auto"] else row[4]
                changed.append(",".join(row))
            rows.write_text("\n".join(changed) + "\n", encoding="utf-8")
            page = metrics_page.PAGE.read_text(encoding="utf-8")
            self.assertNotEqual(page, metrics_page.render(page, metrics_page.pieces(rows)))

    def test_medians_count_searches_without_a_feasible_result_as_the_worst(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            rows = Path(folder) / "rows.csv"
            values = {1: "2.5", 2: "inf", 3: "1.5"}
            rows.write_text(
                "".join(f"welded_beam,auto,{seed},{trials},{value},1.0\n" for trials in (10, 30, 50, 100)
                        for seed, value in values.items()),
                encoding="utf-8",
            )
            worths, times = metrics_page.load(rows)
        self.assertEqual(metrics_page.cell(worths, "welded_beam", "auto"), "2.5 (2) / 2.5 (2) / 2.5 (2)")
        self.assertEqual(times["welded_beam", "auto"], [1.0] * 3)


if __name__ == "__main__":
    unittest.main()
