/** The policies of orgs and projects. The generation is the ETag. A change takes effect with the next call. */
import { BackplaneError, type Json } from "@backplane/contract";
import {
  ExplainQuerySchema,
  POLICY_LEVELS,
  PolicyExplanationSchema,
  PolicyPatchSchema,
  PolicySchema,
  StoredPolicySchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { etagOf, readExpectedGeneration, isUnchanged } from "../requests/etag.ts";
import { parseJsonPart } from "../requests/json-body.ts";
import { canonicalPolicy } from "../requests/policy-spelling.ts";
import type { RouteDeps } from "./route-deps.ts";

const LevelQuery = z.strictObject({
  level: z
    .enum(POLICY_LEVELS)
    .default("org")
    .describe("The policy of the organization, or that of the caller's project, which narrows it."),
});
const READ = { scope: "policy:read" } as const;
const WRITE = { scope: "policy:write" } as const;

export function policyRoutes({ kernel }: RouteDeps): Route[] {
  const { policy } = kernel;
  return [
    defineRoute({
      method: "GET",
      path: "/v1/policy",
      operation_id: "getPolicy",
      summary: "Read the policy",
      description:
        "`policy` is what was set; `effective` includes defaults and the policy of the organization.",
      tag: "Policy",
      auth: READ,
      query: LevelQuery,
      etag: true,
      responses: {
        200: { description: "The policy.", schema: StoredPolicySchema },
        304: { description: "Unchanged." },
      },
      async handler({ caller, query, request }) {
        const state = await policy.get(caller, query.level);
        const headers = { etag: etagOf(state) };
        return isUnchanged(request.headers["if-none-match"], state.generation)
          ? { status: 304, empty: true, headers }
          : { status: 200, json: state, headers };
      },
    }),
    defineRoute({
      method: "PUT",
      path: "/v1/policy",
      operation_id: "putPolicy",
      summary: "Replace the policy",
      description:
        "Owners and admins only. A project's policy can only narrow that of its organization. Recorded in the audit log.",
      tag: "Policy",
      auth: WRITE,
      query: LevelQuery,
      body: PolicySchema,
      translate: canonicalPolicy,
      etag: true,
      if_match: true,
      responses: { 200: { description: "Replaced.", schema: StoredPolicySchema } },
      async handler({ caller, query: { level }, body, if_match }) {
        const current = () => policy.get(caller, level);
        const expected = await readExpectedGeneration(if_match, current);
        const written = await policy.put(caller, level, body, expected);
        return { status: 200, json: written, headers: { etag: etagOf(written) } };
      },
    }),
    defineRoute({
      method: "PATCH",
      path: "/v1/policy",
      operation_id: "patchPolicy",
      summary: "Change fields of the policy",
      description: "Each given field is replaced; null resets it to its default. Otherwise the same as PUT.",
      tag: "Policy",
      auth: WRITE,
      query: LevelQuery,
      body: PolicyPatchSchema,
      translate: canonicalPolicy,
      etag: true,
      if_match: true,
      responses: { 200: { description: "Changed.", schema: StoredPolicySchema } },
      async handler({ caller, query: { level }, body, if_match }) {
        const current = () => policy.get(caller, level);
        const expected = await readExpectedGeneration(if_match, current);
        const written = await policy.patch(caller, level, body, expected);
        return { status: 200, json: written, headers: { etag: etagOf(written) } };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/policy:explain",
      operation_id: "explainPolicy",
      summary: "Explain why a tool would run, require approval or be denied",
      description: "All admission rules in order, each with its decision for such a call.",
      tag: "Policy",
      auth: READ,
      query: ExplainQuerySchema,
      responses: {
        200: { description: "The deciding rule and the reasons.", schema: PolicyExplanationSchema },
      },
      async handler({ caller, query: { tool, context, role, channel, input } }) {
        const question = {
          tool,
          context,
          ...(role === undefined ? {} : { role }),
          ...(channel === undefined ? {} : { channel }),
          ...(input === undefined ? {} : { input: parseInput(input) }),
        };
        return { status: 200, json: await policy.explain(caller, question) };
      },
    }),
  ];
}

function parseInput(text: string): Json {
  const input = parseJsonPart("query.input", "input", Buffer.from(text));
  if (input === undefined) throw new BackplaneError("request.invalid", "query.input: input is empty");
  return input as Json;
}
