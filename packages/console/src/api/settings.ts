/** Queries for providers, the policy, keys, trusted keys, the configuration, kernel plugins and workspaces. */
import type { Client } from "@backplane/client";
import type { PolicyLevel } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

export const providerQueries = {
  list: (client: Client) =>
    queryOptions({ queryKey: ["providers", "list"], queryFn: () => client.providers.list() }),
};

export const policyQueries = {
  current: (client: Client, level: PolicyLevel) =>
    queryOptions({ queryKey: ["policy", level], queryFn: () => client.policy.get(level) }),
};

export const keyQueries = {
  list: (client: Client) =>
    pagedQuery(["keys", "list"], (page) => client.keys.list({ ...page, limit: 200, project: "*" })),
};

export const trustedKeyQueries = {
  list: (client: Client) =>
    pagedQuery(["trusted-keys", "list"], (page) => client.trusted_keys.list({ ...page, limit: 200 })),
};

export const configQueries = {
  list: (client: Client) =>
    queryOptions({ queryKey: ["config", "list"], queryFn: () => client.config.list() }),
};

export const kernelPluginQueries = {
  list: (client: Client) =>
    queryOptions({ queryKey: ["plugins", "list"], queryFn: () => client.plugins.list() }),
};

export const workspaceQueries = {
  list: (client: Client) =>
    queryOptions({ queryKey: ["workspaces", "list"], queryFn: () => client.workspaces.list() }),
};
