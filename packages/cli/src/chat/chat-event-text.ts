/** One moment of a conversation as lines on a terminal. Text of models, tools and people is made plain. */
import { isObject } from "@backplane/contract";
import type { Output } from "../terminal/output.ts";
import { plainLine, plainText } from "../terminal/plain-text.ts";
import type { Moment } from "./chat-events.ts";

const ARGUMENTS_LENGTH = 160;

/** Null: nothing to show. `names` remembers which call is whose, since a result names only the call. */
export function momentText(out: Output, moment: Moment, names: Map<string, string>): string | null {
  switch (moment.kind) {
    case "said":
      return `${out.paint("bold", "you:")} ${indented(moment.text)}${attached(moment.attachments)}`;
    case "answered":
      return moment.text === "" ? null : `${out.paint("bold", "assistant:")} ${indented(moment.text)}`;
    case "model":
      // Without calls it is the answer, which has a line of its own.
      return moment.calls === 0 || moment.text === ""
        ? null
        : `${out.paint("bold", "assistant:")} ${indented(moment.text)}`;
    case "called":
      names.set(moment.id, moment.name);
      return `  ${out.paint("dim", "→")} ${callLine(moment.name, moment.args)}`;
    case "result": {
      const mark = moment.ok ? out.paint("green", "✓") : out.paint("red", "✗");
      return `  ${mark} ${briefLine(nameOf(names, moment.id), moment.brief)}`;
    }
    case "refused":
      return `  ${out.paint("yellow", "⊘")} ${plainLine(`${nameOf(names, moment.id)}: ${moment.why}: ${moment.brief}`)}`;
    case "began":
      return out.paint("dim", "── the conversation begins ──");
    case "compacted": {
      const sizes =
        moment.before === null || moment.after === null ? "" : ` (${moment.before} → ${moment.after} tokens)`;
      const mark = out.paint("dim", `── compacted${sizes} ──`);
      return moment.summary === "" ? mark : `${mark}\n  ${indented(moment.summary)}`;
    }
    case "interrupted":
      return out.paint("yellow", "── interrupted ──");
    case "trouble":
      return out.paint("red", plainLine(`the turn failed: ${moment.message}`));
    case "piece":
    case "asked":
    case "unasked":
    case "caught_up":
      return null;
  }
}

/** A sub-agent is a call too; what it is for says more than its arguments. */
function callLine(name: string, args: unknown): string {
  const goal = isObject(args) ? args.goal : undefined;
  if (name === "agent" && typeof goal === "string") return plainLine(`sub-agent: ${goal}`);
  const text = JSON.stringify(args ?? {});
  const short = text.length > ARGUMENTS_LENGTH ? `${text.slice(0, ARGUMENTS_LENGTH)}…` : text;
  return plainLine(text === "{}" ? name : `${name} ${short}`);
}

/** Some tools begin their brief with their own name. */
function briefLine(name: string, brief: string): string {
  return plainLine(brief.startsWith(`${name}:`) ? brief : `${name}: ${brief || "done"}`);
}

function nameOf(names: Map<string, string>, id: string): string {
  return names.get(id) ?? id;
}

function indented(text: string): string {
  return plainText(text).trimEnd().replaceAll("\n", "\n  ");
}

function attached(count: number): string {
  return count === 0 ? "" : ` (+${count} attached)`;
}
