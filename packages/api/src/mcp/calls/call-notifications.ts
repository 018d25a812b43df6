/**
 * The events of a running call as MCP notifications: progress for a client that sent a progress token, and log messages
 * at or above the client's log level. Progress always increases, whatever the plugin reports.
 */
import {
  type Invocation,
  type InvocationEvent,
  isObject,
  type Json,
  type JsonObject,
} from "@backplane/contract";
import { notification } from "../protocol/json-rpc.ts";
import { isLogged, type LogLevel, toLogLevel } from "../protocol/log-levels.ts";

export interface CallNotifications {
  /** Returns null if the client gets no notification of this event. */
  forEvent(event: InvocationEvent["event"]): JsonObject | null;
  /**
   * Announces that a person must approve the call first. The announcement is repeated while the call waits. A
   * repetition is sent only as progress: it keeps the client from timing out without filling its log.
   */
  forApproval(invocation: Invocation, repeated: boolean): JsonObject[];
}

export function createCallNotifications(
  progress_token: string | number | undefined,
  min_level: LogLevel | null,
  tool: string,
): CallNotifications {
  let last_progress = 0;

  function progress(
    message: Json | undefined,
    value: Json | undefined,
    total: Json | undefined,
  ): JsonObject | null {
    if (progress_token === undefined) return null;
    last_progress = typeof value === "number" && value > last_progress ? value : last_progress + 1;
    return notification("notifications/progress", {
      progressToken: progress_token,
      progress: last_progress,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message } : {}),
    });
  }

  function log(level: LogLevel, data: Json): JsonObject | null {
    return isLogged(level, min_level)
      ? notification("notifications/message", { level, logger: tool, data })
      : null;
  }

  return {
    forEvent(event) {
      const { type, ...rest } = event as JsonObject;
      if (type === "progress") {
        const counts = isObject(rest.data) ? rest.data : rest;
        return progress(rest.message, counts.progress, counts.total);
      }
      if (type === "log") return log(toLogLevel(rest.level), rest.data ?? rest.message ?? rest);
      return log("debug", event as JsonObject);
    },
    forApproval({ id, approval_id }, repeated) {
      const message = awaitingApprovalMessage(tool, approval_id ?? id);
      const notifications = [progress(message, undefined, undefined)];
      if (!repeated) notifications.push(log("notice", { message, invocation_id: id, approval_id }));
      return notifications.filter((each) => each !== null);
    },
  };
}

export function awaitingApprovalMessage(tool: string, id: string): string {
  return `${tool} is awaiting approval. To approve it, run: backplane approve allow ${id}`;
}
