import type { Client } from "@backplane/client";
import { codeOf, definedFields, type ExportKind } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { listAllPages, pagedQuery } from "./paged-query.ts";

export interface BindingFilter {
  kind?: ExportKind | undefined;
  package_id?: string | undefined;
}

export const bindingQueries = {
  list: (client: Client, filter: BindingFilter = {}) =>
    pagedQuery(["bindings", "list", filter], (page) =>
      client.bindings.list({ ...definedFields(filter), ...page, limit: 200 }),
    ),
  all: (client: Client, filter: BindingFilter = {}) =>
    queryOptions({
      queryKey: ["bindings", "all", filter],
      queryFn: () =>
        listAllPages((page) => client.bindings.list({ ...definedFields(filter), ...page, limit: 200 })),
    }),
  detail: (client: Client, id: string) =>
    queryOptions({ queryKey: ["bindings", "detail", id], queryFn: () => client.bindings.get(id) }),
  validation: (client: Client, id: string) =>
    queryOptions({ queryKey: ["bindings", "validation", id], queryFn: () => client.bindings.validate(id) }),
  /** Null if the process has not described its tools yet. */
  definitions: (client: Client, id: string) =>
    queryOptions({
      queryKey: ["bindings", "definitions", id],
      queryFn: () => nullIfMissing(client.bindings.definitions(id)),
    }),
  /** Polled while a person signs in, in another tab. */
  signIn: (client: Client, id: string) =>
    queryOptions({
      queryKey: ["bindings", "sign-in", id],
      queryFn: () => client.bindings.signIn(id),
      refetchInterval: ({ state }) => (isSigningIn(state.data?.login?.status) ? 2_000 : false),
    }),
  waitingUpgrades: (client: Client) =>
    queryOptions({
      queryKey: ["bindings", "waiting-upgrades"],
      queryFn: () => client.bindings.waitingUpgrades(),
    }),
};

function isSigningIn(status: string | undefined): boolean {
  return status === "pending" || status === "taken";
}

export async function nullIfMissing<T>(request: Promise<T>): Promise<T | null> {
  try {
    return await request;
  } catch (error) {
    if (codeOf(error) === "export.not_found") return null;
    throw error;
  }
}
