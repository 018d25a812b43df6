/**
 * Trusted folders on the host with tool files. They belong to the host, so only the admin may use these routes.
 */
import {
  WorkspaceFolderSchema,
  WorkspaceReviewSchema,
  WorkspaceTrustSchema,
} from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { IdParams } from "../requests/parameters.ts";
import type { SseItem } from "../sse/event-streams.ts";
import type { RouteDeps } from "./route-deps.ts";

const ReviewBody = WorkspaceTrustSchema.pick({ path: true, kind: true });

export function workspaceRoutes({ kernel, streams }: RouteDeps): Route[] {
  return [
    defineRoute({
      method: "GET",
      path: "/v1/workspaces",
      operation_id: "listWorkspaces",
      summary: "List trusted folders and their changes",
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
      summary: "Review a folder before trusting it",
      description:
        "Changes nothing. Returns the text of every file that is new or has changed since it was last trusted.",
      tag: "Workspaces",
      auth: { host: true },
      body: ReviewBody,
      responses: { 200: { description: "The files of the folder.", schema: WorkspaceReviewSchema } },
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
        "For a folder that is already trusted, trusts its changes. With `watch`, later changes are loaded automatically. " +
        "Responds 409 workspace.changed if the files do not match `digest`.",
      tag: "Workspaces",
      auth: { host: true },
      body: WorkspaceTrustSchema,
      progress: true,
      responses: { 200: { description: "The folder.", schema: WorkspaceFolderSchema } },
      handler: async ({ caller, body, operation }) => ({
        status: 200,
        json: await kernel.workspaces.trust(caller, body, operation),
      }),
    }),
    defineRoute({
      method: "GET",
      path: "/v1/workspaces/{id}/activity",
      operation_id: "watchWorkspace",
      summary: "Follow a trusted folder: loads, errors and frames",
      description:
        "Server-sent events: `event` is the type and `data` a WorkspaceActivity; the first describes what is loaded. Frames are those of processes that start " +
        "after the request; running processes of the folder are replaced. Secrets are redacted.",
      tag: "Workspaces",
      auth: { host: true },
      params: IdParams,
      responses: { 200: { description: "The stream.", type: "text/event-stream" } },
      handler: ({ caller, params, reply }) =>
        streams.stream(reply, (stop) => sseItems(caller, params.id, stop)),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/workspaces/{id}",
      operation_id: "untrustWorkspace",
      summary: "Stop trusting a folder",
      description: "Removes its tools. The files themselves are not changed.",
      tag: "Workspaces",
      auth: { host: true },
      params: IdParams,
      responses: { 204: { description: "No longer trusted." } },
      async handler({ caller, params }) {
        await kernel.workspaces.untrust(caller, params.id);
        return { status: 204, empty: true };
      },
    }),
  ];

  async function* sseItems(caller: Caller, id: string, stop: AbortSignal): AsyncGenerator<SseItem> {
    for await (const activity of kernel.workspaces.streamActivity(caller, id, stop))
      yield { event: activity.type, data: JSON.stringify(activity) };
  }
}
