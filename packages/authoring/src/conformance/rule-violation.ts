/** Thrown by a check: the plugin breaks a rule. */
import type { JsonObject } from "@backplane/contract";
import type { RuleId } from "./rules.ts";
import { clipText } from "./transcript.ts";

export class RuleViolation extends Error {
  readonly rule: RuleId;
  /** The frame that breaks the rule, or the bytes that are not a frame; null if a frame is missing. */
  readonly frame: string | null;

  constructor(rule: RuleId, message: string, frame: JsonObject | string | null = null) {
    super(message);
    this.rule = rule;
    this.frame = frame === null ? null : clipText(typeof frame === "string" ? frame : JSON.stringify(frame));
  }
}
