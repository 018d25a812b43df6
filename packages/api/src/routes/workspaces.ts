/** Folders of the gateway's machine whose tool files are trusted. They are the host's, so only its admin sees them. */
import {
  WorkspaceFolderSchema,
  WorkspaceReviewSchema,
  WorkspaceTrustSchema,
} from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { IdParams } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const ReviewBody = WorkspaceTrustSchema.pick({ path: true, kind: true });

export function workspaceRoutes({ kernel }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/workspaces",
      operation_id: "listWorkspaces",
      summary: "Trusted folders, and what changed in them since",
      tag: "Workspaces",
      auth: { host: true },
      responses: {
        200: { description: "All of them.", schema: z.object({ items: z.array(WorkspaceFolderSchema) }) },
      },
      handler: async ({ caller }) => ({ status: 200, json: { items: await kernel.workspaces.list(caller) } }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/workspaces:review",
      operation_id: "reviewWorkspace",
      summary: "What would be trusted",
      description:
        "Nothing changes. The text of every file that is new or changed since it was last trusted.",
      tag: "Workspaces",
      auth: { host: true },
      body: ReviewBody,
      responses: { 200: { description: "The folder's files.", schema: WorkspaceReviewSchema } },
      handler: async ({ caller, body }) => ({
        status: 200,
        json: await kernel.workspaces.review(caller, body.path, body.kind),
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/workspaces",
      operation_id: "trustWorkspace",
      summary: "Trust a folder and load its tools",
      description:
        "Again for a folder that is trusted: its changes are trusted too. With `watch`, later saves are loaded as " +
        "they come. 409 workspace.changed when the files are not those of `digest`.",
      tag: "Workspaces",
      auth: { host: true },
      body: WorkspaceTrustSchema,
      responses: { 200: { description: "As it is now.", schema: WorkspaceFolderSchema } },
      handler: async ({ caller, body }) => ({
        status: 200,
        json: await kernel.workspaces.trust(caller, body),
      }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/workspaces/{id}",
      operation_id: "untrustWorkspace",
      summary: "Take a folder's tools away",
      description: "Its files stay where they are.",
      tag: "Workspaces",
      auth: { host: true },
      params: IdParams,
      responses: { 204: { description: "Its tools are gone." } },
      async handler({ caller, params }) {
        await kernel.workspaces.untrust(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
  ];
}
