/**
 * What a running call tells, as notifications: progress for a client that gave a token, log messages at or above its
 * level. Progress always rises, whatever the plugin counts.
 */
import type { Invocation, InvocationEvent, Json, JsonObject } from "@backplane/contract";
import { notification } from "./json-rpc.ts";
import { heard, type LogLevel, levelOf } from "./log-levels.ts";

export interface NoteTaker {
  event(event: InvocationEvent["event"]): JsonObject | null;
  /** That a person has to answer first; repeated, it keeps a client's patience. */
  waiting(invocation: Invocation, repeated: boolean): JsonObject[];
}

export function createNotes(
  token: string | number | undefined,
  least: LogLevel | null,
  tool: string,
): NoteTaker {
  let told = 0;

  function progress(
    message: Json | undefined,
    at: Json | undefined,
    total: Json | undefined,
  ): JsonObject | null {
    if (token === undefined) return null;
    told = typeof at === "number" && at > told ? at : told + 1;
    return notification("notifications/progress", {
      progressToken: token,
      progress: told,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message } : {}),
    });
  }

  function log(level: LogLevel, data: Json): JsonObject | null {
    return heard(level, least) ? notification("notifications/message", { level, logger: tool, data }) : null;
  }

  return {
    event(event) {
      const { type, ...rest } = event as JsonObject;
      if (type === "progress") {
        const counts =
          typeof rest.data === "object" && rest.data !== null && !Array.isArray(rest.data) ? rest.data : rest;
        return progress(rest.message, counts.progress, counts.total);
      }
      if (type === "log") return log(levelOf(rest.level), rest.data ?? rest.message ?? rest);
      return log("debug", event as JsonObject);
    },
    waiting({ id, approval_id }, repeated) {
      const said = waitsFor(tool, approval_id ?? id);
      const notes = [progress(said, undefined, undefined)];
      if (!repeated) notes.push(log("notice", { message: said, invocation_id: id, approval_id }));
      return notes.filter((note) => note !== null);
    },
  };
}

export function waitsFor(what: string, id: string): string {
  return `${what} waits for an approval; answer it with: backplane approve allow ${id}`;
}
