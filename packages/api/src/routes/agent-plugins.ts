/** Installs an Agent Plugins folder, from an archive or from the host. One folder becomes several packages. */
import { BackplaneError } from "@backplane/contract";
import { AgentPluginInstalledSchema } from "@backplane/contract/schema";
import type { Caller, InstallationSource, Operation } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { respondOnce } from "../requests/idempotency.ts";
import { ARCHIVE_TYPES, importUpload, isUpload } from "../requests/upload.ts";
import type { RouteDeps } from "./route-deps.ts";

const FolderBody = z.strictObject({
  source: z.strictObject({ folder: z.string().regex(/^\/./, "must be an absolute path") }),
});
const StrictQuery = z.strictObject({
  strict: z.enum(["0", "1"]).default("0").describe("1 installs nothing if any part cannot be used."),
});

export function agentPluginRoutes({ kernel, upload_bytes }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/agent-plugins",
      operation_id: "installAgentPlugin",
      summary: "Install an Agent Plugins folder",
      description:
        "The body is an archive, or JSON that specifies a folder on the host (admin token only). Each server of its mcp.json " +
        "becomes a package, and all its skills become one package. The field `binding` of each package is the request body that binds it. `left_out` lists " +
        "the parts that cannot be used, with the reason.",
      tag: "Packages",
      auth: { scope: "packages:write" },
      query: StrictQuery,
      body: FolderBody,
      uploads: ARCHIVE_TYPES,
      idempotent: true,
      progress: true,
      responses: {
        201: { description: "Installed, in whole or in part.", schema: AgentPluginInstalledSchema },
      },
      handler({ caller, body, query, request, operation }) {
        const strict = query.strict === "1";
        const raw: unknown = body;
        if (isUpload(raw))
          return importUpload(kernel, caller, request, raw, upload_bytes, (bytes) =>
            install(caller, { kind: "archive", bytes }, strict, operation),
          );
        // The scope `admin` covers an org, not the host's disk.
        if (caller.actor !== "admin") throw new BackplaneError("package.source_forbidden");
        const { folder: path } = body.source;
        return respondOnce(kernel, caller, request, body, () =>
          install(caller, { kind: "folder", path }, strict, operation),
        );
      },
    }),
  ];

  async function install(
    caller: Caller,
    source: InstallationSource,
    strict: boolean,
    operation: Operation | undefined,
  ) {
    const installed = await kernel.packages.installAgentPlugin(caller, source, { strict }, operation);
    return { status: 201, json: installed };
  }
}
