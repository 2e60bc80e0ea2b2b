// The table of a study's trials, kept up to date: columns by row, where the row of trial n is n - 1.
import { bytes, call, type Json } from "./api";

const NO_WORD = 0xffffffff;

interface Words { indexes: Uint32Array; texts: string[]; places: Map<string, number> }

export class Table {
  rows = 0;
  seq = "0";
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

  /** Returns how many texts a column has. */
  texts(column: string): number {
    return this.words.get(column)?.texts.length ?? 0;
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

  private add(page: Json): void {
    const columns = (page["columns"] ?? []) as Json[];
    const decoded = columns.map((column) => {
      const raw = bytes(String(column["numbers"] ?? column["words"]?.indexes ?? ""));
      const whole = raw.byteOffset === 0 ? raw.buffer : raw.slice().buffer;
      return column["words"] ? new Uint32Array(whole as ArrayBuffer) : new Float64Array(whole as ArrayBuffer);
    });
    const at = columns.findIndex((column) => column["name"] === "number");
    const places = decoded[at] as Float64Array | undefined;
    if (places === undefined || places.length === 0) return;
    this.grow(places.reduce((most, n) => Math.max(most, n), this.rows));
    columns.forEach((column, k) => {
      const name = String(column["name"]);
      const values = decoded[k]!;
      if (column["words"]) {
        let words = this.words.get(name);
        if (words === undefined) {
          words = { indexes: new Uint32Array(this.room).fill(NO_WORD), texts: [], places: new Map() };
          this.words.set(name, words);
        }
        const joined = ((column["words"].words ?? []) as string[]).map((text) => {
          let place = words.places.get(text);
          if (place === undefined) {
            place = words.texts.length;
            words.texts.push(text);
            words.places.set(text, place);
          }
          return place;
        });
        for (let i = 0; i < values.length; ++i) words.indexes[places[i]! - 1] = joined[values[i]!] ?? NO_WORD;
      } else {
        let numbers = this.numbers.get(name);
        if (numbers === undefined) {
          numbers = new Float64Array(this.room).fill(NaN);
          this.numbers.set(name, numbers);
        }
        for (let i = 0; i < values.length; ++i) numbers[places[i]! - 1] = values[i]!;
      }
    });
    this.states = this.words.get("state");
    this.ends = this.numbers.get("end_time") ?? this.ends;
  }

  /** Reads what has changed since the last time. Returns whether anything has. */
  async refresh(study: string, columns: string[], signal?: AbortSignal): Promise<boolean> {
    let token = "", seq = this.seq, changed = false;
    do {
      const page = await call("StudyService/GetTrialTable", { name: study, columns, afterSeq: this.seq, pageToken: token }, signal);
      changed ||= Number(page["rows"] ?? 0) > 0;
      this.add(page);
      seq = String(page["seq"] ?? seq);
      token = String(page["nextPageToken"] ?? "");
    } while (token !== "");
    this.seq = seq;
    return changed;
  }
}
