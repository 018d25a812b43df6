/** The catalog: every callable tool, whatever its source. */
import { CatalogEntrySchema, ChannelNameSchema } from "@backplane/contract/schema";
import { requireOperator, withChannel } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { nameSchema } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const CatalogQuery = z.strictObject({
  all: z
    .enum(["0", "1"])
    .default("0")
    .describe(
      "1 also lists tools that are hidden or not offered, with the reason and the change that would offer them.",
    ),
  channel: ChannelNameSchema.optional().describe("Lists the tools that you are offered on this channel."),
});

export function catalogRoutes({ kernel }: RouteDeps): Route[] {
  const { catalog } = kernel;
  return [
    defineRoute({
      method: "GET",
      path: "/v1/catalog",
      operation_id: "listCatalog",
      summary: "List the tools of the catalog",
      description: "The tools of all sources, with origin, risk, category and token cost.",
      tag: "Discovery",
      auth: { scope: "exports:read", delegated: "tools:invoke" },
      query: CatalogQuery,
      responses: {
        200: {
          description: "All of them; there is no next page.",
          schema: z.object({ items: z.array(CatalogEntrySchema), next: z.null() }),
        },
      },
      async handler({ caller, query: { all, channel } }) {
        if (channel !== undefined) requireOperator(caller, "list the tools of a channel");
        const viewer = channel === undefined ? caller : withChannel(caller, channel);
        return {
          status: 200,
          json: { items: await catalog.listEntries(viewer, { all: all === "1" }), next: null },
        };
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/catalog/{name}",
      operation_id: "getCatalogTool",
      summary: "Read all candidates for a tool name",
      description:
        "The tool that is offered under the name comes first; each other candidate states why it is not.",
      tag: "Discovery",
      auth: { scope: "exports:read" },
      params: z.object({ name: nameSchema(128).min(1) }),
      responses: {
        200: {
          description: "All of them; there is no next page.",
          schema: z.object({ items: z.array(CatalogEntrySchema), next: z.null() }),
        },
      },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: { items: await catalog.get(caller, params.name), next: null },
      }),
    }),
  ];
}
