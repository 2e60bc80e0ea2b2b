// The table of a study's trials, kept up to date: columns by row, where the row of trial n is n - 1.
import { bytes, call, type Json } from "./api";

const NO_WORD = 0xffffffff;

export class Table {
  rows = 0;
  seq = "0";
  private numbers = new Map<string, Float64Array>();
  private words = new Map<string, { indexes: Uint32Array; texts: string[]; places: Map<string, number> }>();

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

  word(column: string, row: number): string {
    const words = this.words.get(column);
    return words === undefined ? "" : words.texts[words.indexes[row]!] ?? "";
  }

  /** Returns whether there is a trial in this row. */
  exists(row: number): boolean {
    const state = this.word("state", row);
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
  }

  /** Reads what has changed since the last time. Returns whether anything has. */
  async refresh(study: string, signal?: AbortSignal): Promise<boolean> {
    let token = "", seq = this.seq, changed = false;
    do {
      const page = await call("StudyService/GetTrialTable", { name: study, afterSeq: this.seq, pageToken: token }, signal);
      changed ||= Number(page["rows"] ?? 0) > 0;
      this.add(page);
      seq = String(page["seq"] ?? seq);
      token = String(page["nextPageToken"] ?? "");
    } while (token !== "");
    this.seq = seq;
    return changed;
  }
}
