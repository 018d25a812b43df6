/** A replay: recorded read-only calls, run against the version in use and against a candidate, and compared. */
import { z } from "zod";
import { ExportIdSchema, JsonValueSchema } from "./scalars.ts";

export const ReplayRequestSchema = z.strictObject({
  limit: z.int().min(1).max(500).default(50).describe("How many calls are replayed, newest first."),
  tools: z
    .array(ExportIdSchema)
    .min(1)
    .max(64)
    .optional()
    .describe("Only calls to these tools. Default: all read-only tools of the package."),
  org_wide: z
    .boolean()
    .optional()
    .describe("True compares with the bindings of the whole organization instead of the caller's project."),
});

const DifferenceSchema = z.object({
  /** A JSON pointer into the result. */
  path: z.string(),
  change: z.enum(["added", "removed", "changed"]),
  /** Shortened values; absent where there is none. */
  current: JsonValueSchema.optional(),
  candidate: JsonValueSchema.optional(),
});

/** A connection that was attempted. Nothing was reached, because a replay has no network. */
const AttemptSchema = z.object({ host: z.string(), port: z.int() });

const ReplayedCallSchema = z.object({
  invocation_id: z.string(),
  export_id: z.string(),
  /**
   * `same`: both versions return the same result, or only the candidate reproduces the recorded one. `changed`: the
   * results differ, or the candidate may not run the call. `failed`: only the candidate fails, or it does not have the
   * tool. `not_comparable`: the version in use does not reproduce its recorded result. `skipped`: the call was not run.
   */
  result: z.enum(["same", "changed", "failed", "not_comparable", "skipped"]),
  /** The reason for the result, for people; null for `same`. */
  reason: z.string().nullable(),
  differences: z.array(DifferenceSchema),
  current_ms: z.number().nullable(),
  candidate_ms: z.number().nullable(),
  /** Connections that only the candidate attempted. */
  attempts: z.array(AttemptSchema),
});

export const ReplayReportSchema = z.object({
  package_id: z.string(),
  from_versions: z.array(z.string()),
  to_version: z.string(),
  /** `held`: the candidate requests a permission, or attempts a connection, that the version in use does not. */
  verdict: z.enum(["same", "changed", "held", "nothing_replayed"]),
  counts: z.object({
    same: z.int(),
    changed: z.int(),
    failed: z.int(),
    not_comparable: z.int(),
    skipped: z.int(),
  }),
  permissions: z.object({
    /** Permissions that only the candidate requests, per binding. */
    requested: z.array(z.object({ binding_id: z.string(), permission: z.string() })),
    /** Connections that only the candidate attempted during the replay. */
    attempted: z.array(AttemptSchema),
  }),
  /** Medians over the calls that both versions ran; `ratio` is candidate divided by current. Null if there are none. */
  latency: z.object({ current_ms: z.number(), candidate_ms: z.number(), ratio: z.number() }).nullable(),
  /** Bindings that cannot be upgraded to the candidate, with the reason. */
  problems: z.array(z.object({ binding_id: z.string(), message: z.string() })),
  calls: z.array(ReplayedCallSchema),
});

export type ReplayRequest = z.infer<typeof ReplayRequestSchema>;
export type ReplayReport = z.infer<typeof ReplayReportSchema>;
export type ReplayedCall = z.infer<typeof ReplayedCallSchema>;
export type ReplayDifference = z.infer<typeof DifferenceSchema>;
