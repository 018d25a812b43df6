/**
 * The policy of an org or a project: which tools may be called by whom, and which calls need approval. All fields are
 * optional. A project's policy can only narrow the policy of its org. See spec/policy.md.
 */
import { z } from "zod";
import {
  CALL_CONTEXTS,
  DEFERRALS,
  EFFECT_CLASSES,
  EXECUTION_CLASSES,
  HEFTY_ORIGINS,
  type HeftyOrigin,
  NETWORK_ACCESS,
  ORIGINS,
  RISKS,
  ROLES,
  TOLERANCES,
} from "../vocabulary/vocabulary.ts";
import { LlmBudgetSchema } from "./llm.ts";
import { DomainSchema, JsonObjectSchema, TimestampSchema } from "./scalars.ts";

const boundedList = <T extends z.ZodType>(item: T) => z.array(item).max(256);

export const CategorySchema = z.string().min(1).max(64);

/** A tool name; `*` matches any characters. */
export const ToolPatternSchema = z
  .string()
  .max(128)
  .regex(/^[A-Za-z0-9_*-]+$/, "write a tool name, with * for any characters");

/** The name of a group of tools in `tool_profiles`. */
const ProfileNameSchema = z
  .string()
  .max(64)
  .regex(/^[a-z0-9][a-z0-9_-]*$/, "write lower-case letters, digits, _ and -");

const RISK = z.enum(RISKS);

const MatchSchema = z
  .strictObject({
    pointer: z
      .string()
      .max(512)
      .regex(
        /^(\/([^~/]|~[01])*)*$/,
        "write a JSON pointer such as /path, or an empty string for the whole input",
      ),
    matches: z
      .string()
      .min(1)
      .max(512)
      .optional()
      .describe("A regular expression that a string argument must match."),
    equals: z.json().optional(),
    one_of: z.array(z.json()).min(1).max(64).optional(),
    exists: z.boolean().optional(),
  })
  .refine(
    ({ matches, equals, one_of, exists }) =>
      [matches, equals, one_of, exists].filter((test) => test !== undefined).length === 1,
    "set exactly one of matches, equals, one_of and exists",
  );

/** A rule can only deny a call or raise its risk, never allow a call (instr.security-rules). */
export const SecurityRuleSchema = z
  .strictObject({
    id: z.string().min(1).max(64).optional(),
    tools: boundedList(ToolPatternSchema)
      .min(1)
      .optional()
      .describe("If absent, the rule applies to every tool, or in a plugin to the tool that contains it."),
    when: z
      .array(MatchSchema)
      .max(16)
      .default([])
      .describe("All conditions must match. An empty list matches every call."),
    action: z.enum(["deny", "raise"]),
    risk: RISK.optional().describe("The risk that `raise` sets; the default is high."),
    reason: z.string().max(300).optional(),
  })
  .refine(
    ({ action, risk }) => action === "raise" || risk === undefined,
    "set a risk only with the action raise",
  );

const OriginNameSchema = z
  .enum([...ORIGINS, ...(Object.keys(HEFTY_ORIGINS) as HeftyOrigin[])])
  .describe("base is Hefty's name for core, built_in for bundled.");

const RoleSelectionSchema = z.strictObject({
  origins: boundedList(OriginNameSchema).optional(),
  tools: boundedList(ToolPatternSchema).optional(),
  categories: boundedList(CategorySchema).optional(),
});

/** `deny` takes precedence over `allow` (instr.origins). */
export const RolePolicySchema = z.strictObject({
  allow: RoleSelectionSchema.optional(),
  deny: RoleSelectionSchema.optional(),
  max_risk: RISK.optional(),
  disabled: z.boolean().optional().describe("true: no call or turn of this role starts or continues."),
});

/** The name of a channel: `api`, `ws`, `mcp`, or the plugin that published the message. */
export const ChannelNameSchema = z
  .string()
  .max(64)
  .regex(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/, "write api, ws, mcp or the name of an adapter plugin");

const ToleranceSchema = z.strictObject({
  conversation: z.enum(TOLERANCES).optional(),
  background: z.enum(TOLERANCES).optional(),
  headless: z.enum(TOLERANCES).optional(),
});

/** Narrows what the rest of the policy allows for calls that a message or request on this channel caused. */
export const ChannelPolicySchema = RolePolicySchema.omit({ disabled: true }).extend({
  tolerance: ToleranceSchema.optional(),
  allowed_tool_categories: boundedList(CategorySchema).nullable().optional().describe("Null allows all."),
  allowed_origins: boundedList(OriginNameSchema).nullable().optional().describe("Null allows all."),
});

/** The minimum risk of matching tools, regardless of the author's declaration (tools.risk-floor). */
export const RiskFloorSchema = z.strictObject({
  egress: RISK.optional().describe("The minimum risk of a call that is granted network access."),
  writable_mounts: RISK.optional().describe(
    "The minimum risk of a call that is granted a writable folder on the host.",
  ),
  host: RISK.optional().describe("The minimum risk of a call that runs on the host, outside the sandbox."),
  categories: z.record(CategorySchema, RISK).optional(),
});

/** Narrows the grants of all calls, in addition to backplane.toml. */
export const HostLevelSchema = z.strictObject({
  class: z.enum(EXECUTION_CLASSES).optional().describe("The minimum isolation."),
  network: z.enum(NETWORK_ACCESS).optional(),
  allowed_domains: boundedList(DomainSchema).optional(),
  mounts: z.boolean().optional().describe("false: no folder on the host is mounted."),
});

export const PolicySchema = z.strictObject({
  tolerance: ToleranceSchema.optional(),
  allowed_tool_categories: boundedList(CategorySchema).nullable().optional().describe("Null allows all."),
  allowed_origins: boundedList(OriginNameSchema).nullable().optional().describe("Null allows all."),
  roles: z.partialRecord(z.enum(ROLES), RolePolicySchema).optional(),
  channels: z
    .record(ChannelNameSchema, ChannelPolicySchema)
    .optional()
    .describe(
      "What is allowed on a channel: api, ws, mcp, or the name of an adapter plugin. It can only narrow the rest of the policy.",
    ),
  risks: z
    .record(ToolPatternSchema, RISK)
    .optional()
    .describe(
      "The risk that the operator assigns to a tool; it replaces the author's. The minimum still applies.",
    ),
  floor: RiskFloorSchema.optional(),
  host: HostLevelSchema.optional(),
  rules: z.array(SecurityRuleSchema).max(256).optional(),
  lasting_approvals: z
    .enum(TOLERANCES)
    .optional()
    .describe(
      "The highest risk that an approval for a session, an allow rule or a binding with approval = never may cover.",
    ),
  deferred_tools: boundedList(ToolPatternSchema)
    .optional()
    .describe("Tools that a model sees only after tool_search has found them."),
  pinned_tools: boundedList(ToolPatternSchema).optional().describe("Tools that are never deferred."),
  tool_token_budget: z
    .int()
    .min(0)
    .max(10_000_000)
    .optional()
    .describe(
      "The maximum estimated tokens of the tools in a model call. Above it, the least used tools are deferred.",
    ),
  tool_profiles: z
    .record(ProfileNameSchema, boundedList(ToolPatternSchema))
    .optional()
    .describe("Named groups of tools. A key that lists @NAME lists the tools of that group."),
  llm: LlmBudgetSchema.optional().describe(
    "Limits of each project at the model endpoints; a project may only lower those of its organization.",
  ),
  archived: z
    .boolean()
    .optional()
    .describe("true: no call, turn or delivery starts or continues here. Records can still be read."),
});

/** A null field is reset to its default; an absent field is kept. */
export const PolicyPatchSchema = z.strictObject(
  Object.fromEntries(
    Object.entries(PolicySchema.shape).map(([name, schema]) => [name, schema.nullable()]),
  ) as unknown as typeof PolicySchema.shape,
);

/** The level that a caller reads or writes. */
export const POLICY_LEVELS = ["org", "project"] as const;

export const StoredPolicySchema = z.object({
  level: z.enum(POLICY_LEVELS),
  org_id: z.string(),
  project_id: z.string().nullable(),
  policy: PolicySchema,
  /** The effective policy: defaults, org and project combined. */
  effective: z.json(),
  /** The grant limits of backplane.toml, read-only. */
  host_file: z.json(),
  generation: z.int(),
  updated_at: TimestampSchema.nullable(),
  updated_by: z.string().nullable(),
});

export const ExplainQuerySchema = z.strictObject({
  tool: z.string().min(1).max(128),
  context: z.enum(CALL_CONTEXTS).default("conversation"),
  role: z.enum(ROLES).optional(),
  channel: ChannelNameSchema.optional().describe("As if the call came in on this channel."),
  input: z.string().max(65_536).optional().describe("The arguments as JSON, for rules that check them."),
});

const CATALOG_STATUSES = ["offered", "hidden", "skipped", "failed", "held", "inactive"] as const;

export const CatalogEntrySchema = z.object({
  name: z.string(),
  title: z.string().nullable(),
  description: z.string(),
  origin: z.enum(ORIGINS),
  package_id: z.string(),
  package_version: z.string(),
  binding_id: z.string(),
  status: z.enum(CATALOG_STATUSES),
  reason: z.string().nullable().describe("Why the tool is not offered."),
  fix: z.string().nullable().describe("How to make the tool available, as a command if there is one."),
  category: z.string().nullable(),
  risk: RISK,
  effect_class: z.enum(EFFECT_CLASSES),
  requires_approval: z.boolean(),
  deferred: z.boolean().describe("Models see the tool only after tool_search has found it."),
  deferred_by: z
    .enum(DEFERRALS)
    .nullable()
    .describe(
      "Why it is deferred: its author, deferred_tools of the policy, the tools of the key, or tool_token_budget.",
    ),
  token_cost: z.int().describe("Estimated tokens of its name, description and schema in every model call."),
  input_schema: JsonObjectSchema,
  taken_out: z.array(z.string()).describe("Hidden characters that were removed from the author's texts."),
});

export const PolicyExplanationSchema = z.object({
  tool: z.string(),
  outcome: z.enum(["run", "ask", "deny"]),
  decided_by: z.string().nullable(),
  reason: z.string().nullable(),
  context: z.enum(CALL_CONTEXTS),
  role: z.enum(ROLES),
  channel: z.string().nullable().describe("The channel whose rules apply; null for the gateway's own calls."),
  tolerance: z.enum(TOLERANCES).nullable(),
  tolerance_channel: z.string().nullable().describe("The channel that lowers the tolerance, or null."),
  risk: RISK,
  risk_sources: z.array(z.object({ source: z.string(), risk: RISK, why: z.string() })),
  allowed_by: z
    .string()
    .nullable()
    .describe("The allow rule or binding that lets the call run without an approval."),
  winner: CatalogEntrySchema,
  losers: z.array(CatalogEntrySchema),
  steps: z.array(
    z.object({
      rule: z.string(),
      about: z.string(),
      decision: z.enum(["pass", "ask", "deny"]),
      reason: z.string().nullable(),
    }),
  ),
});

export type SecurityRule = z.infer<typeof SecurityRuleSchema>;
export type RoleSelection = z.infer<typeof RoleSelectionSchema>;
export type RolePolicy = z.infer<typeof RolePolicySchema>;
export type ChannelPolicy = z.infer<typeof ChannelPolicySchema>;
export type RiskFloor = z.infer<typeof RiskFloorSchema>;
export type HostLevel = z.infer<typeof HostLevelSchema>;
export type Policy = z.infer<typeof PolicySchema>;
export type PolicyPatch = { [K in keyof Policy]?: Policy[K] | null };
export type PolicyLevel = (typeof POLICY_LEVELS)[number];
