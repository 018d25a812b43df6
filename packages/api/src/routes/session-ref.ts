/** How the agent's routes name a session, and what several of them share. */
import type { SessionRef } from "@backplane/kernel";
import { JsonObjectSchema } from "@backplane/contract/schema";
import { z } from "zod";
import { nameOf } from "./shapes.ts";

/** The kernel says which ids a client may use; here they are only kept short. */
export const SessionId = nameOf(256).min(1);
export const Workspace = nameOf(1_024).min(1);

export const WorkspaceQuery = z.strictObject({
  workspace: Workspace.optional().describe("Default `default`."),
});

export const UserMessageBody = z.strictObject({
  text: z.string(),
  attachments: z.array(JsonObjectSchema).max(100).optional(),
});

export const EntryCursor = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export function refOf(session_id: string, { workspace }: { workspace?: string | undefined }): SessionRef {
  return workspace === undefined ? { session_id } : { session_id, workspace };
}

/** Without what was not sent, for callees that tell a missing field from an undefined one. */
export function sent<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
