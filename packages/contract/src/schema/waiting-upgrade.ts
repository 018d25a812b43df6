/** Upgrades that await a person's decision. They are not approvals: those belong to one call and expire with it. */
import { z } from "zod";
import { TimestampSchema } from "./scalars.ts";

export const WaitingUpgradeSchema = z.object({
  /** `permissions`: an owner or admin grants or withholds them. `rollback`: a failed trial could not be rolled back. */
  waits_for: z.enum(["permissions", "rollback"]),
  package_id: z.string(),
  /** The version that serves the calls. */
  version: z.string(),
  /** The version that requests the permissions, or that the gateway could not return to. */
  other_version: z.string(),
  /** The requested share of the calls, if it is less than 100. */
  percent: z.number().optional(),
  /** The requested length of the trial, if it is not the default. */
  trial_seconds: z.int().optional(),
  scope: z.object({ org_id: z.string(), project_id: z.string().nullable() }),
  binding_ids: z.array(z.string()),
  since: TimestampSchema,
  message: z.string(),
  fix: z.string(),
});

export type WaitingUpgrade = z.infer<typeof WaitingUpgradeSchema>;
