/** The live configuration. Values under secret keys are masks, but for a deliberate read of one key by an admin. */
import {
  ConfigEntrySchema,
  ConfigKeyPatternSchema,
  ConfigKeySchema,
  ConfigMapSchema,
  ConfigPatchSchema,
  ConfigRemovedSchema,
  ConfigWrittenSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../route.ts";
import type { RouteDeps } from "./index.ts";

const KeyParams = z.object({ key: ConfigKeySchema });
const PatternParams = z.object({ key: ConfigKeyPatternSchema });
const ShowQuery = z.object({
  show: z.enum(["0", "1"]).optional().describe("1 answers the value itself: admin only, and recorded."),
});

export function configRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/api/config",
      operation_id: "listConfig",
      summary: "The whole configuration, masked",
      tag: "Configuration",
      auth: { scope: "config:read" },
      responses: { 200: { description: "Every key with its value or mask.", schema: ConfigMapSchema } },
      handler: async ({ caller }) => ({ status: 200, json: await kernel.config.list(caller) }),
    }),
    defineRoute({
      method: "GET",
      path: "/api/config/{key}",
      operation_id: "getConfig",
      summary: "Read one key",
      description:
        "Keys whose last segment is, or ends in _ and, api_key, token, secret or password answer a mask.",
      tag: "Configuration",
      auth: { scope: "config:read" },
      params: KeyParams,
      query: ShowQuery,
      responses: { 200: { description: "The key with its value or mask.", schema: ConfigEntrySchema } },
      handler: async ({ caller, params, query }) => ({
        status: 200,
        json: await kernel.config.get(caller, params.key, { show: query.show === "1" }),
      }),
    }),
    defineRoute({
      method: "PATCH",
      path: "/api/config/{key}",
      operation_id: "setConfig",
      summary: "Write one key",
      tag: "Configuration",
      auth: { scope: "config:write" },
      params: KeyParams,
      body: ConfigPatchSchema,
      responses: { 200: { description: "Written; it counts from now on.", schema: ConfigWrittenSchema } },
      async handler({ caller, params, body }) {
        await kernel.config.set(caller, { [params.key]: body.value });
        return { status: 200, json: { key: params.key, ok: true } };
      },
    }),
    defineRoute({
      method: "DELETE",
      path: "/api/config/{key}",
      operation_id: "unsetConfig",
      summary: "Unset one key, or with a.b.* all keys below one",
      tag: "Configuration",
      auth: { scope: "config:write" },
      params: PatternParams,
      responses: { 200: { description: "Whether anything was there.", schema: ConfigRemovedSchema } },
      async handler({ caller, params }) {
        const removed = await kernel.config.unset(caller, params.key);
        return { status: 200, json: { key: params.key, removed: removed.length > 0 } };
      },
    }),
  ];
}
