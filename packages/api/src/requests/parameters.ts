/** Parameters that several routes take. */
import { JsonObjectSchema } from "@backplane/contract/schema";
import type { SessionRef } from "@backplane/ports";
import { z } from "zod";

/** A name without control characters or lone surrogates: PostgreSQL cannot store NUL. */
export const nameSchema = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, "must not contain control characters");

export const IdParams = z.object({ id: nameSchema(256).min(1) });

export const PageQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(500).default(50).describe("Rows per page."),
  after: nameSchema(256).optional().describe("`next` of the previous page."),
});

export const listSchema = (item: z.ZodType) =>
  z.object({ items: z.array(item), next: z.string().nullable() });

export function splitPage<Q extends { limit: number; after?: string | undefined }>(
  query: Q,
): { page: { limit: number; after?: string }; filter: Omit<Q, "limit" | "after"> } {
  const { limit, after, ...filter } = query;
  return { page: after === undefined ? { limit } : { limit, after }, filter };
}

const DEFAULT_WAIT_S = 30;

export const WaitSeconds = z
  .union([z.literal(["", "true"]), z.coerce.number().min(0).max(60)], {
    error: "must be true, or a number of seconds from 0 to 60",
  })
  .optional()
  .describe("Seconds to wait for the end, up to 60; `true` means 30.");

export function waitMs(wait: z.output<typeof WaitSeconds>): number {
  if (wait === undefined) return 0;
  return (typeof wait === "number" ? wait : DEFAULT_WAIT_S) * 1000;
}

/** Limits only the length and the characters; the kernel decides which session ids a client may use. */
export const SessionId = nameSchema(256).min(1);
export const Workspace = nameSchema(1_024).min(1);

export const WorkspaceQuery = z.strictObject({
  workspace: Workspace.optional().describe("Default `default`."),
});

export const UserMessageBody = z.strictObject({
  text: z.string(),
  attachments: z.array(JsonObjectSchema).max(100).optional(),
});

export const EntryCursor = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export function toSessionRef(
  session_id: string,
  { workspace }: { workspace?: string | undefined },
): SessionRef {
  return workspace === undefined ? { session_id } : { session_id, workspace };
}
