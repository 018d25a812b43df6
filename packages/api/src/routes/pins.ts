/** Pinned entries of a session, which every compaction keeps. */
import { PinSchema } from "@backplane/contract/schema";
import { z } from "zod";
import { defineRoute, type Route } from "../http/route.ts";
import { EntryCursor, IdParams, toSessionRef, WorkspaceQuery } from "../requests/parameters.ts";
import type { RouteDeps } from "./route-deps.ts";

const READ = { scope: "sessions:read", delegated: "sessions:read" } as const;
const WRITE = { scope: "sessions:write", delegated: "sessions:write" } as const;

const NewPin = z.strictObject({ entry_id: z.int().min(1) });
const PinParams = IdParams.extend({ entry_id: EntryCursor });

export function pinRoutes({ kernel }: RouteDeps): Route[] {
  const { sessions } = kernel;
  return [
    defineRoute({
      method: "GET",
      path: "/v1/sessions/{id}/pins",
      operation_id: "listPins",
      summary: "List the pinned entries of a session",
      tag: "Sessions",
      auth: READ,
      params: IdParams,
      query: WorkspaceQuery,
      responses: {
        200: {
          description: "All of them; there is no next page.",
          schema: z.object({ items: z.array(PinSchema), next: z.null() }),
        },
      },
      handler: async ({ caller, params, query }) => ({
        status: 200,
        json: { items: await sessions.listPins(caller, toSessionRef(params.id, query)), next: null },
      }),
    }),
    defineRoute({
      method: "POST",
      path: "/v1/sessions/{id}/pins",
      operation_id: "pinEntry",
      summary: "Pin an entry",
      description:
        "A pinned message, tool call or tool result stays in the model's context unchanged through every compaction. Pinning it again changes nothing.",
      tag: "Sessions",
      auth: WRITE,
      params: IdParams,
      query: WorkspaceQuery,
      body: NewPin,
      responses: { 201: { description: "The pin.", schema: PinSchema } },
      handler: async ({ caller, params, query, body }) => ({
        status: 201,
        json: await sessions.pin(caller, toSessionRef(params.id, query), body.entry_id),
      }),
    }),
    defineRoute({
      method: "DELETE",
      path: "/v1/sessions/{id}/pins/{entry_id}",
      operation_id: "unpinEntry",
      summary: "Unpin an entry",
      tag: "Sessions",
      auth: WRITE,
      params: PinParams,
      query: WorkspaceQuery,
      responses: { 204: { description: "The entry is no longer pinned." } },
      async handler({ caller, params, query }) {
        await sessions.unpin(caller, toSessionRef(params.id, query), params.entry_id);
        return { status: 204, empty: true };
      },
    }),
  ];
}
