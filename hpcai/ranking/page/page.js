
"use strict";
// Sorts tables, filters rows, unfolds details. Without it the page shows all lists, and no details.

const lists = [...document.querySelectorAll("section.list")];
const entries = [...document.querySelectorAll("tbody.entry")];
const collator = new Intl.Collator("en", { numeric: true });

// The value of a column in an entry: a number, a text, or null where the cell is empty.
function valueOf(entry, column, numeric) {
  const cell = entry.rows[0].cells[column];
  const text = cell.textContent.trim();
  if (text === "") return null;
  return numeric ? Number(cell.dataset.value ?? text) : text;
}

function compared(one, other) {
  return typeof one === "number" ? one - other : collator.compare(one, other);
}

// Empty cells are last in both directions; equal ones keep their order.
function sortBy(head) {
  const table = head.closest("table");
  const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  const numeric = head.classList.contains("number");
  const keyed = [...table.tBodies].map((entry) => [valueOf(entry, head.cellIndex, numeric), entry]);
  const full = keyed.filter(([value]) => value !== null);
  const empty = keyed.filter(([value]) => value === null);
  full.sort(([one], [other]) => (direction === "ascending" ? compared(one, other) : compared(other, one)));
  table.append(...[...full, ...empty].map(([, entry]) => entry));
  table.querySelectorAll(":scope > thead th[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", direction);
}

function fold(button) {
  const unfolded = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!unfolded));
  document.getElementById(button.getAttribute("aria-controls")).hidden = unfolded;
}

const texts = new Map();

// What the filter searches of an entry: its row, the name of its list, and the file of its details.
function textOf(entry) {
  if (!texts.has(entry)) {
    const name = entry.closest("section").querySelector("h3")?.textContent ?? "";
    texts.set(entry, `${name}\n${entry.rows[0].innerText}\n${entry.dataset.file ?? ""}`.toLowerCase());
  }
  return texts.get(entry);
}

// Rows without the asked words are hidden, and so are lists without rows.
function filter() {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  entries.forEach((entry) => textOf(entry));
  for (const entry of entries) entry.hidden = !words.every((word) => textOf(entry).includes(word));
  for (const list of lists) list.hidden = words.length > 0 && !list.querySelector("tbody.entry:not([hidden])");
  const shown = entries.filter((entry) => !entry.hidden).length;
  document.getElementById("count").textContent = `${shown} of ${entries.length} rows shown`;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.classList.contains("sort")) sortBy(button.closest("th"));
  if (button?.classList.contains("fold")) fold(button);
});
document.getElementById("filter").addEventListener("input", filter);
document.getElementById("controls").hidden = false;
filter();
