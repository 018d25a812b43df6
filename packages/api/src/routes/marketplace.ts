/** Curated entries of the marketplace, and the search in a public registry of MCP servers. */
import {
  InstallationSchema,
  InstallationSettingsSchema,
  MarketplaceCardSchema,
  MarketplaceIdSchema,
  MarketplaceListSchema,
  ServerSearchSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { installedResponse } from "../requests/installed-response.ts";
import type { RouteDeps } from "./route-deps.ts";

const EntryParams = z.strictObject({ id: MarketplaceIdSchema });
const ListQuery = z.strictObject({
  search: z.string().max(200).optional().describe("Words that the entry contains."),
});
const SearchQuery = z.strictObject({ search: z.string().min(1).max(200) });
const InstallBody = InstallationSettingsSchema.pick({
  bind: true,
  org_wide: true,
  dry_run: true,
  config: true,
  secrets: true,
  rollout: true,
  policy: true,
}).extend({
  oci: z
    .string()
    .max(1_024)
    .optional()
    .describe("The artifact of the card that was approved. Another one is refused (`marketplace.mismatch`)."),
});

export function marketplaceRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/marketplace",
      operation_id: "listMarketplace",
      summary: "List the marketplace",
      description:
        "The entries of all catalogs, independent of what is installed. `catalogs` states how old each catalog is and why one " +
        "cannot be read.",
      tag: "Packages",
      auth: { scope: "packages:read" },
      query: ListQuery,
      responses: { 200: { description: "The entries.", schema: MarketplaceListSchema } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.marketplace.list(caller, query),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/marketplace/{id}",
      operation_id: "getMarketplaceEntry",
      summary: "Read an entry of the marketplace",
      tag: "Packages",
      auth: { scope: "packages:read" },
      params: EntryParams,
      responses: { 200: { description: "The card.", schema: MarketplaceCardSchema } },
      handler: async ({ caller, params }) => ({
        status: 200,
        json: await kernel.marketplace.get(caller, params.id),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/marketplace/{id}:install",
      operation_id: "installMarketplaceEntry",
      summary: "Install an entry of the marketplace",
      description:
        "Installs the pinned artifact, which a trusted key must have signed, and binds its exports according to the install " +
        "policy of the entry. No code of the artifact runs. An artifact that does not match the card is refused. If the " +
        "package is already bound in another version, its bindings stay as they are; `upgrade` names the upgrade that changes them.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      params: EntryParams,
      body: InstallBody,
      idempotent: true,
      progress: true,
      responses: {
        201: { description: "Installed.", schema: InstallationSchema },
        200: { description: "Nothing had to be changed.", schema: InstallationSchema },
      },
      handler: ({ caller, params, body, request, operation }) =>
        respondOnce(kernel, caller, request, body, async () =>
          installedResponse(await kernel.marketplace.install(caller, params.id, body, operation)),
        ),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/marketplace-servers",
      operation_id: "searchServers",
      summary: "Search a public registry of MCP servers",
      description:
        "Searches the registry of `marketplace.mcp_registry`. Its entries have not been reviewed. `sources` are arguments of " +
        "`backplane plugin install`.",
      tag: "Packages",
      auth: { scope: "packages:read" },
      query: SearchQuery,
      responses: { 200: { description: "The servers.", schema: ServerSearchSchema } },
      handler: async ({ caller, query }) => ({
        status: 200,
        json: await kernel.marketplace.searchServers(caller, query.search),
      }),
    }),
  ];
}
