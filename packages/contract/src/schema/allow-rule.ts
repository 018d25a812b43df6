/**
 * Allow rules: lasting permissions to call a tool, or all tools of a server, without an approval each time
 * (allow.rules). A rule applies to one package, one caller (or everyone in its scope) and risks up to its maximum, and
 * only while the grant of the call is not wider than when the rule was made. See spec/policy.md.
 */
import { z } from "zod";
import { RULE_COVERAGES, RULE_RISKS } from "../vocabulary/vocabulary.ts";
import { GrantSchema } from "./grant.ts";
import { ExportIdSchema, JsonValueSchema, TimestampSchema } from "./scalars.ts";

/** A `*` in the host of a URL could match someone else's host. */
function hasWildcardHost(pattern: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*\*/i.test(pattern);
}

const ArgumentConditionSchema = z
  .strictObject({
    equals: JsonValueSchema.optional(),
    matches: z
      .string()
      .min(1)
      .max(512)
      .refine((pattern) => !hasWildcardHost(pattern), {
        message: "write the whole host of an address before the first *, as in https://example.com/*",
      })
      .optional()
      .describe(
        "A pattern in which * matches any characters except control characters and ; | & $ < > `. A value with a .. path " +
          "segment does not match.",
      ),
  })
  .refine(({ equals, matches }) => (equals === undefined) !== (matches === undefined), {
    message: "set exactly one of equals and matches",
  });

const ArgumentsSchema = z
  .record(z.string().min(1).max(128), ArgumentConditionSchema)
  .refine((conditions) => Object.keys(conditions).length <= 32, "list at most 32 arguments");

export const AllowRuleSchema = z.object({
  id: z.string(),
  org_id: z.string(),
  project_id: z.string().nullable().describe("Null for all projects of the organization."),
  covers: z.enum(RULE_COVERAGES),
  tool: z.string().nullable().describe("Null for all tools of the package."),
  package_id: z.string(),
  arguments: ArgumentsSchema.nullable().describe("Null for any arguments."),
  other_arguments: z.boolean().describe("Whether a call may have arguments that the rule does not list."),
  max_risk: z.enum(RULE_RISKS),
  grant: GrantSchema.describe("The rule does not apply to a call whose grant is wider."),
  identity: z.string().nullable().describe("The caller whose calls the rule covers; null for every caller."),
  created_by: z.string(),
  created_at: TimestampSchema,
  approval_id: z.string().nullable().describe("The approval whose answer made the rule."),
  note: z.string().nullable(),
  ended: z.string().nullable().describe("Why the rule no longer applies; null while it does."),
  suspended: z
    .string()
    .nullable()
    .describe(
      "Which calls need approval because the policy's lasting_approvals is lower than max_risk; null if none do.",
    ),
});

export const AllowRuleCreateSchema = z
  .strictObject({
    tool: ExportIdSchema.optional().describe("A tool, by its name in the catalog."),
    server: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe("All tools of a server or package: its name or package_id."),
    arguments: ArgumentsSchema.optional(),
    other_arguments: z.boolean().optional().describe("Default true."),
    max_risk: z
      .enum(RULE_RISKS)
      .optional()
      .describe("Default: the highest current risk of the tools that the rule covers."),
    identity: z
      .string()
      .min(1)
      .max(128)
      .nullable()
      .optional()
      .describe(
        "Default: the caller itself. Null covers every caller. Null and another caller need the role admin.",
      ),
    org_wide: z.boolean().optional().describe("True for all projects of the organization."),
    note: z.string().max(300).optional(),
  })
  .refine(({ tool, server }) => (tool === undefined) !== (server === undefined), {
    message: "set exactly one of tool and server",
    path: ["tool"],
  })
  .refine(({ server, arguments: conditions }) => server === undefined || conditions === undefined, {
    message: "the tools of a server have different arguments; specify one tool",
    path: ["arguments"],
  });

export type ArgumentCondition = z.infer<typeof ArgumentConditionSchema>;
export type AllowRule = z.infer<typeof AllowRuleSchema>;
export type AllowRuleCreate = z.infer<typeof AllowRuleCreateSchema>;
