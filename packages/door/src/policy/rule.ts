/** What a rule of admission is: it looks at one call and what is around it, and passes, denies or wants a person asked. */
import type { ErrorCode, ErrorDetails, Grant } from "@backplane/contract";
import type { Opened } from "../open/open.ts";

/** What the rules look at: a call that was opened, or one that somebody only asks about. */
export type Asked = Pick<
  Opened,
  "caller" | "plan" | "policy" | "context" | "issues" | "hits" | "depth" | "row" | "standing"
>;

/** What is true around the call at this moment. */
export interface Surroundings {
  stopping: boolean;
  sandbox: () => { enabled: boolean; available: boolean; reason: string };
  queueFull: (gate: string, max_concurrency: number) => boolean;
  /** As many calls wait for a person as may. */
  waitingFull: () => boolean;
  /** How deep calls may start calls. */
  max_depth: number;
}

export type Decision =
  | typeof PASS
  | { kind: "deny"; code: ErrorCode; message: string; details?: ErrorDetails; fix?: string }
  | { kind: "ask"; reason: string };

export interface Rule {
  name: string;
  /** What it looks at, for people. */
  about: string;
  /** Depends on who asks for what, not on the arguments or the moment: what it denies is not even listed. */
  standing?: true;
  /** Asked again before a call that had to wait is started, also where `standing` is not. */
  again?: true;
  decide(call: Asked, grant: Grant, around: Surroundings): Decision;
}

export const PASS = { kind: "pass" } as const;
export const deny = (
  code: ErrorCode,
  message: string,
  more: { details?: ErrorDetails; fix?: string } = {},
): Decision => ({ kind: "deny", code, message, ...more });
