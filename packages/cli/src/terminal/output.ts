/** Prints data on stdout (one JSON document with --json) and everything else on stderr. */
import type { Io } from "./io.ts";
import { jsonLine, plainLine } from "./plain-text.ts";
import { createStatusLine, type StatusLine } from "./status-line.ts";

export type Color = "red" | "green" | "yellow" | "bold" | "dim";
const SGR: Record<Color, string> = { red: "31", green: "32", yellow: "33", bold: "1", dim: "2" };

export interface Output {
  readonly json: boolean;
  readonly quiet: boolean;
  /** Prints the command's result; `text` is not called with --json. */
  data(value: unknown, text: () => string): void;
  /** Prints one item of a stream (`events tail`): a JSON line, or text. */
  line(value: unknown, text: () => string): void;
  /** Prints progress or a hint; does nothing with --quiet. */
  note(text: string): void;
  /** Shows the reason for a wait; nothing with --quiet or --json. */
  readonly status: StatusLine;
  /** Shows `text` while `work` runs. */
  during<T>(text: string, work: () => Promise<T>): Promise<T>;
  paint(color: Color, text: string): string;
}

export function createOutput(io: Io, flags: { json?: boolean; quiet?: boolean }): Output {
  const json = flags.json === true;
  const quiet = flags.quiet === true;
  const use_color =
    io.stdout.isTTY === true && !json && (io.env.NO_COLOR ?? "") === "" && io.env.TERM !== "dumb";
  const status = createStatusLine(io, { shown: !json && !quiet });
  const data = (value: unknown, text: () => string) => {
    status.clear();
    const printed = json ? jsonLine(value) : text();
    if (printed !== "") io.stdout.write(printed.endsWith("\n") ? printed : `${printed}\n`);
  };
  return {
    json,
    quiet,
    data,
    line: data,
    status,
    async during(text, work) {
      const wait = status.begin(text);
      try {
        return await work();
      } finally {
        wait.end();
      }
    },
    note(text) {
      status.clear();
      if (!quiet) io.stderr.write(`${text}\n`);
    },
    paint: (color, text) => (use_color ? `\u001b[${SGR[color]}m${text}\u001b[0m` : text),
  };
}

export type Cell = string | number | null | undefined;

/** Pads each column to its widest cell, without trailing blanks. Cells may contain untrusted text and are sanitized. */
export function table(output: Output, heads: string[], rows: Cell[][]): string {
  const cells = rows.map((row) =>
    row.map((cell) => plainLine(cell === null || cell === undefined ? "-" : `${cell}`)),
  );
  const widths = heads.map((head, i) => Math.max(head.length, ...cells.map((row) => row[i]?.length ?? 0)));
  const join = (row: string[]) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd();
  return [output.paint("bold", join(heads)), ...cells.map(join)].join("\n");
}

/** `name: value` lines for one object; undefined values are omitted. */
export function fields(pairs: Record<string, unknown>): string {
  const entries = Object.entries(pairs).filter(([, value]) => value !== undefined);
  const width = Math.max(...entries.map(([name]) => name.length)) + 2;
  return entries.map(([name, value]) => `${`${name}:`.padEnd(width)}${fieldText(value)}`).join("\n");
}

function fieldText(value: unknown): string {
  if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) return "-";
  if (Array.isArray(value) && value.every((item) => typeof item === "string"))
    return plainLine(value.join(", "));
  return plainLine(typeof value === "string" ? value : JSON.stringify(value));
}
