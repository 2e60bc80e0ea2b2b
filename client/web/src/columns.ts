// The table of a study's trials, kept up to date: columns by row, where the row of trial n is n - 1.
import { tablePage, type TablePage } from "./table";

const NO_WORD = 0xffffffff;

interface Words { indexes: Uint32Array; texts: string[]; places: Map<string, number> }

export class Table {
  rows = 0;
  seq = "0";
  version = 0; // Rises with every change, also of what is looked back to.
  private last = -1; // The row of the last trial whose end counts; -1: all count, and open trials too.
  private numbers = new Map<string, Float64Array>();
  private words = new Map<string, Words>();
  private states: Words | undefined; // Of `words`, at hand.
  private ends: Float64Array = new Float64Array(0); // Of `numbers`, at hand.

  names(): string[] {
    return [...this.numbers.keys(), ...this.words.keys()];
  }

  /** Returns a column of numbers, NaN where there is none. */
  number(column: string): Float64Array {
    return this.numbers.get(column) ?? new Float64Array(this.rows).fill(NaN);
  }

  has(column: string): boolean {
    return this.numbers.has(column) || this.words.has(column);
  }

  isText(column: string): boolean {
    return this.words.has(column);
  }

  /** Returns the state of the trial in this row; "" if there is none. */
  state(row: number): string {
    if (this.states === undefined || (this.last >= 0 && !this.isPast(row))) return "";
    return this.states.texts[this.states.indexes[row]!] ?? "";
  }

  word(column: string, row: number): string {
    if (column === "state") return this.state(row);
    const words = this.words.get(column);
    return words === undefined ? "" : words.texts[words.indexes[row]!] ?? "";
  }

  /** Shows the table as it was when trial `number` had ended: later ones and open ones are as though they were not there.
   * 0: as it is. Returns the number of an event up to which the log tells no more, "" for 0. */
  lookBack(number: number): string {
    if (this.last !== number - 1) ++this.version;
    this.last = number - 1;
    if (number === 0) return "";
    const seqs = this.number("update_seq");
    let seq = seqs[this.last]!;
    // Notes and such change trials long after their end: no event after the next end is meant.
    for (let row = 0; row < this.rows; ++row) if (!this.isPast(row) && seqs[row]! <= seq) seq = seqs[row]! - 1;
    return String(Math.max(1, seq));
  }

  private endOf(row: number): number {
    const end = this.ends[row]!;
    return Number.isFinite(end) ? end : Infinity;
  }

  private isPast(row: number): boolean {
    const end = this.endOf(row), last = this.endOf(this.last);
    return end < last || (end === last && row <= this.last);
  }

  /** Returns the different texts that a column has had. */
  wordsIn(column: string): string[] {
    return this.words.get(column)?.texts ?? [];
  }

  /** Returns whether there is a trial in this row. */
  exists(row: number): boolean {
    const state = this.state(row);
    return state !== "" && state !== "DELETED";
  }

  private grow(rows: number): void {
    if (rows <= this.rows) return;
    const room = Math.max(rows, Math.ceil(this.rows * 1.25));
    for (const [name, values] of this.numbers) {
      const wider = new Float64Array(room).fill(NaN);
      wider.set(values.subarray(0, this.rows));
      this.numbers.set(name, wider);
    }
    for (const words of this.words.values()) {
      const wider = new Uint32Array(room).fill(NO_WORD);
      wider.set(words.indexes.subarray(0, this.rows));
      words.indexes = wider;
    }
    this.rows = rows;
    this.room = room;
  }
  private room = 0;

  private add(page: TablePage): void {
    const places = page.columns.find((column) => column.name === "number")?.numbers;
    if (places === undefined || places.length === 0) return;
    ++this.version;
    let rows = this.rows;
    for (let i = 0; i < places.length; ++i) rows = Math.max(rows, places[i]!);
    this.grow(rows);
    const first = places[0]! - 1;
    let last = 1;
    while (last < places.length && places[last] === first + last + 1) ++last;
    const inOrder = last === places.length; // As all of a table comes.
    for (const column of page.columns) {
      if (column.words) this.addWords(column.name, column.words, places);
      else if (column.numbers) {
        let numbers = this.numbers.get(column.name);
        if (numbers === undefined) this.numbers.set(column.name, (numbers = new Float64Array(this.room).fill(NaN)));
        const values = column.numbers;
        if (inOrder) numbers.set(values, first);
        else for (let i = 0; i < values.length; ++i) numbers[places[i]! - 1] = values[i]!;
      }
    }
    this.states = this.words.get("state");
    this.ends = this.numbers.get("end_time") ?? this.ends;
  }

  private addWords(name: string, { indexes, texts }: { indexes: Uint32Array; texts: string[] }, places: Float64Array): void {
    let words = this.words.get(name);
    if (words === undefined) this.words.set(name, (words = { indexes: new Uint32Array(this.room).fill(NO_WORD), texts: [], places: new Map() }));
    const known = words;
    const joined = texts.map((text) => {
      let place = known.places.get(text);
      if (place === undefined) {
        place = known.texts.length;
        known.texts.push(text);
        known.places.set(text, place);
      }
      return place;
    });
    for (let i = 0; i < indexes.length; ++i) known.indexes[places[i]! - 1] = joined[indexes[i]!] ?? NO_WORD;
  }

  private begun = ""; // The event after which changes are to be read again, since begin read before the rest.

  /** Reads some columns of all trials, so that something is seen before the rest is there, which refresh then reads. */
  async begin(study: string, columns: string[], signal?: AbortSignal): Promise<void> {
    this.begun = (await this.read(study, columns, signal)).seq;
  }

  /** Reads what has changed since the last time. Returns whether anything has. */
  async refresh(study: string, columns: string[], signal?: AbortSignal): Promise<boolean> {
    const { seq, changed } = await this.read(study, columns, signal);
    this.seq = this.begun || seq;
    this.begun = "";
    return changed;
  }

  private async read(study: string, columns: string[], signal?: AbortSignal): Promise<{ seq: string; changed: boolean }> {
    let token = "", seq = this.seq, changed = false;
    do {
      const page = await tablePage(study, columns, this.seq, token, signal);
      changed ||= page.rows > 0;
      this.add(page);
      seq = page.seq;
      token = page.next;
    } while (token !== "");
    return { seq, changed };
  }
}
