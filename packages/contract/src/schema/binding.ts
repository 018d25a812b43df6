import { z } from "zod";
import {
  BINDING_STATUSES,
  DELEGATION_SCOPES,
  EXECUTION_CLASSES,
  FILESYSTEM_ACCESS,
  NETWORK_ACCESS,
  WHOLE_PACKAGE,
} from "../vocabulary/vocabulary.ts";
import { EventFilterSchema } from "./event.ts";
import { MountSchema } from "./grant.ts";
import {
  CapabilitySchema,
  DomainSchema,
  ExportIdSchema,
  JsonObjectSchema,
  PackageIdSchema,
  SecretRefSchema,
  SlotSchema,
  TimestampSchema,
  VersionSchema,
} from "./scalars.ts";

/** Not derived with `partial()`, which keeps the manifest's defaults: an absent field must not narrow the grant. */
const NarrowedPermissionsSchema = z.strictObject({
  network: z.enum(NETWORK_ACCESS).optional(),
  filesystem: z.enum(FILESYSTEM_ACCESS).optional(),
  gateway_api_scopes: z.array(z.enum(DELEGATION_SCOPES)).max(64).optional(),
  secret_slots: z.array(SlotSchema).max(64).optional(),
});

/** A secret must not use a variable that changes how programs start or that the sandbox sets. */
const SecretVariableSchema = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]{0,127}$/, "must be a name such as API_TOKEN")
  .refine(
    (name) =>
      !/^(?:PATH|HOME|TMPDIR|LANG|IFS|ENV|(?:LD|NODE|PYTHON|BASH|PERL|RUBY|JAVA|BACKPLANE)_.*)$/.test(name),
    "is a name that programs or the sandbox interpret",
  );

export const BindingPolicySchema = z.strictObject({
  timeout_ms: z.int().min(1).max(86_400_000).optional(),
  /**
   * `always`: no allow rule applies; only an answer for the session covers repeated calls, and only with the same
   * arguments. `never`: no call needs approval, up to the risk that the policy's lasting_approvals permits; only an
   * owner or admin can set it.
   */
  approval: z.enum(["never", "always"]).optional(),
  approval_timeout_ms: z.int().min(1_000).max(2_592_000_000).optional(),
  allowed_domains: z.array(DomainSchema).max(256).optional(),
  mounts: z.array(MountSchema).max(32).optional(),
  /** Narrows the permissions of the manifest; a wider value has no effect. */
  permissions: NarrowedPermissionsSchema.optional(),
  class: z.enum(EXECUTION_CLASSES).optional(),
  secret_env: z
    .record(SlotSchema, SecretVariableSchema)
    .optional()
    .describe(
      "Maps slots to environment variables, for mcp.stdio and hefty.jsonrpc, which have no other channel for secrets. If a request binds a slot of an mcp.stdio server without a variable, the slot gets the variable that is named after it (API_KEY for api_key), unless the config refers to the slot.",
    ),
  /** Lets tools that require the host run on the gateway's machine without a sandbox. Only the admin token can set it. */
  host_target: z.boolean().optional(),
  /** Lets the org's model answer sampling requests from an MCP server if the calling client does not. */
  sampling: z
    .strictObject({
      max_tokens: z
        .int()
        .min(1)
        .max(65_536)
        .describe("maximum for one request; larger requests are reduced to it"),
      per_hour: z.int().min(1).max(10_000).describe("maximum number of requests of the binding per hour"),
    })
    .optional(),
  /** For hooks: how events are delivered to this binding. */
  deliveries: z
    .strictObject({
      paused: z.boolean().optional().describe("Events are kept and delivered after the hook is resumed."),
      concurrency: z.int().min(1).max(64).optional().describe("Number of concurrent deliveries; default 4."),
      max_attempts: z
        .int()
        .min(1)
        .max(100)
        .optional()
        .describe("Attempts before a delivery is dead; default 10."),
      filter: EventFilterSchema.optional().describe("Further narrows the filter of the manifest."),
    })
    .optional(),
  /** rterm.plugin.v1: the capabilities that the binding grants. */
  capabilities: z
    .array(CapabilitySchema)
    .max(64)
    .refine((values) => new Set(values).size === values.length, "list each capability once")
    .optional(),
});

export const RolloutSchema = z.strictObject({ traffic_percent: z.number().min(0).max(100) });

export const BindingCreateSchema = z.strictObject({
  package_id: PackageIdSchema,
  package_version: VersionSchema,
  /** `*` binds every tool of the package. */
  export_id: z.union([ExportIdSchema, z.literal(WHOLE_PACKAGE)]),
  /** True binds for the whole org instead of the caller's project. */
  org_wide: z.boolean().optional(),
  config: JsonObjectSchema.optional(),
  secrets: z.record(SlotSchema, SecretRefSchema).optional(),
  status: z.enum(["active", "disabled"]).optional(),
  rollout: RolloutSchema.optional(),
  policy: BindingPolicySchema.optional(),
});

const BindingPolicyChangesSchema = z.strictObject(
  Object.fromEntries(
    Object.entries(BindingPolicySchema.shape).map(([name, schema]) => [
      name,
      schema.unwrap().nullable().optional(),
    ]),
  ) as {
    [K in keyof typeof BindingPolicySchema.shape]: z.ZodOptional<
      z.ZodNullable<ReturnType<(typeof BindingPolicySchema.shape)[K]["unwrap"]>>
    >;
  },
);

/** config, secrets and policy are replaced as a whole. An absent field is kept. */
export const BindingPatchSchema = z.strictObject({
  package_version: VersionSchema.optional(),
  config: JsonObjectSchema.optional(),
  secrets: z.record(SlotSchema, SecretRefSchema).optional(),
  status: z.enum(["active", "disabled"]).optional(),
  rollout: RolloutSchema.optional(),
  policy: BindingPolicySchema.optional(),
  changes: z
    .strictObject({
      policy: BindingPolicyChangesSchema.optional(),
      secrets: z.record(SlotSchema, SecretRefSchema.nullable()).optional(),
    })
    .optional()
    .describe(
      "Individual fields of the policy and individual secrets. Null removes one, and all others are kept. With package_version, all values here are chosen for the new version, whereas a value in config, secrets or policy that equals the current one counts as chosen for the old version.",
    ),
});

const HeldPermissionSchema = z.enum(["network", "filesystem", "gateway_api_scopes", "allowed_domains"]);

/** The version that the binding used before its last upgrade or rollback, with its settings. */
const PreviousVersionSchema = z.object({
  package_version: z.string(),
  digest: z.string(),
  generation: z.int(),
  config: JsonObjectSchema,
  secrets: z.record(z.string(), z.string()),
  policy: BindingPolicySchema,
  class_lowered_by: z.string().nullable(),
  /** Trust that the change of version dropped, because it was given for the content of the previous version. */
  trust_dropped: z.array(z.enum(["host_target", "class", "approval"])),
  /** Permissions that only the new version requests; `policy` withholds them. */
  permissions_held: z.array(HeldPermissionSchema),
  /**
   * Permissions that only the new version requests and that the policy already limited before the upgrade. Only an admin
   * may remove such a limit.
   */
  permissions_limited: z.array(HeldPermissionSchema).optional(),
  /** The bindings that served a share of the calls during the rollout. Their waiting calls continue on this binding. */
  shares: z.array(z.string()).optional(),
  /** True if a rollback moved the binding away from this version. */
  undone: z.literal(true).optional(),
});

/** While a version is on trial, the gateway rolls it back when it crashes or fails too often. */
const TrialSchema = z.object({
  from_version: z.string(),
  /** Null for a share of the calls, which is on trial until the rollout ends. */
  until: TimestampSchema.nullable(),
  max_error_percent: z.number(),
});

/** An upgrade that an admin has to approve, because the version requests more permissions. */
const HeldUpgradeSchema = z.object({
  package_version: z.string(),
  /**
   * The content that the permissions belong to. Absent in rows of an earlier version, which have to be requested again.
   */
  digest: z.string().optional(),
  permissions: z.array(z.string()),
  requested_by: z.string(),
  requested_at: TimestampSchema,
  /** The requested share of the calls, if it is less than 100. */
  percent: z.number().optional(),
  /** The requested length of the trial, if it is not the default. */
  trial_seconds: z.int().optional(),
});

/** The last version that the gateway itself rolled back. */
const RolledBackSchema = z.object({
  package_version: z.string(),
  reason: z.string(),
  at: TimestampSchema,
  /** The call that caused the rollback. */
  invocation_id: z.string().optional(),
});

/** A version that failed its trial while the gateway could not return to the previous version. */
const RollbackFailedSchema = z.object({
  /** Why the trial failed. */
  reason: z.string(),
  /** Why the previous version cannot be used. */
  problem: z.string(),
  fix: z.string(),
  invocation_id: z.string(),
  at: TimestampSchema,
});

export const BindingSchema = z.object({
  binding_id: z.string(),
  package_id: z.string(),
  package_version: z.string(),
  export_id: z.string(),
  kind: z.enum(["tool", "hook", "compactor", "harness"]),
  scope: z.object({ org_id: z.string(), project_id: z.string().nullable() }),
  config: JsonObjectSchema,
  secrets: z.record(z.string(), z.string()),
  status: z.enum(BINDING_STATUSES),
  /** Required slots without a secret; the binding is inactive while there are any. */
  unbound_slots: z.array(z.string()),
  rollout: RolloutSchema,
  policy: BindingPolicySchema,
  /** The actor who lowered the class below its default, if any. */
  class_lowered_by: z.string().nullable(),
  /** Absent until the binding has been upgraded. */
  previous: PreviousVersionSchema.optional(),
  /** Present while the version is on trial. */
  trial: TrialSchema.optional(),
  held_upgrade: HeldUpgradeSchema.optional(),
  rolled_back: RolledBackSchema.optional(),
  /** Present until the binding changes to another version. */
  rollback_failed: RollbackFailedSchema.optional(),
  /** For a binding that serves a share of the calls during a rollout: the binding that serves the others. */
  share_of: z.string().optional(),
  /** Increases with every change. Calls in flight finish on the generation that they started with. */
  generation: z.int(),
  created_at: TimestampSchema,
  updated_at: TimestampSchema,
});

/** The response to a change. */
export const ChangedBindingSchema = BindingSchema.extend({
  waiting_deliveries: z
    .int()
    .optional()
    .describe(
      "Only if the change disables a hook: the number of deliveries that were waiting for it, where 500 means 500 or more. They are kept until the hook is enabled again, but no longer than dead letters.",
    ),
});

/** Upgrades all bindings of the package in the scope to this version; settings in the request override theirs. */
export const BindingUpgradeSchema = z.strictObject({
  package_id: PackageIdSchema,
  package_version: VersionSchema,
  /** True upgrades the bindings of the whole org instead of the caller's project. */
  org_wide: z.boolean().optional(),
  percent: z
    .number()
    .min(0.01)
    .max(100)
    .optional()
    .describe(
      "The share of the calls that the version gets; default 100. Below 100, the bindings do not move yet.",
    ),
  new_permissions: z
    .enum(["withhold", "hold", "grant"])
    .optional()
    .describe(
      "For a version that requests more permissions: upgrade without them (withhold, the default), wait for an admin (hold), or grant them (admins only).",
    ),
  trial: z
    .strictObject({
      seconds: z.int().min(0).max(86_400).optional().describe("Default 60; 0 for no trial."),
      max_error_percent: z
        .number()
        .min(1)
        .max(100)
        .optional()
        .describe("Default 50; applies from 20 calls on."),
    })
    .optional()
    .describe("A version that crashes or fails too often during its trial is rolled back by the gateway."),
  /** Keyed by export id, or `*`. */
  bindings: z
    .record(
      z.union([ExportIdSchema, z.literal(WHOLE_PACKAGE)]),
      z.strictObject({
        config: JsonObjectSchema.optional(),
        secrets: z.record(SlotSchema, SecretRefSchema).optional(),
        policy: BindingPolicySchema.optional(),
      }),
    )
    .optional(),
});

export const BindingRollbackSchema = z.strictObject({
  package_id: PackageIdSchema,
  org_wide: z
    .boolean()
    .optional()
    .describe("True rolls back the bindings of the whole organization instead of the caller's project."),
});

export type BindingRollback = z.infer<typeof BindingRollbackSchema>;
export type BindingUpgrade = z.infer<typeof BindingUpgradeSchema>;
export type BindingPolicy = z.infer<typeof BindingPolicySchema>;
export type BindingCreate = z.infer<typeof BindingCreateSchema>;
export type BindingPatch = z.infer<typeof BindingPatchSchema>;
export type Binding = z.infer<typeof BindingSchema>;
export type ChangedBinding = z.infer<typeof ChangedBindingSchema>;
