/** Arbitraries for the levels of a grant. Any field of a level may be missing. */

import { DELEGATION_SCOPES, EXECUTION_CLASSES, type InvokeBody } from "@backplane/contract";
import type { GrantLevel } from "@backplane/ports";
import fc from "fast-check";

export const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
/** Drops the keys whose value is undefined. */
export const sparse = <T extends object>(arbitrary: fc.Arbitrary<T>) =>
  arbitrary.map((value) => JSON.parse(JSON.stringify(value)) as T);
const slots = fc.subarray(["jira", "slack", "mail"]);
export const names = fc.subarray(["one", "two", "three"]);
export const scopes = fc.subarray([...DELEGATION_SCOPES]);
export const domains = fc.subarray([
  "*",
  "*.example.com",
  "api.example.com",
  "api.example.com:443",
  "other.org",
]);
export const isolation = fc.constantFrom(...EXECUTION_CLASSES);
export const network = fc.constantFrom("none" as const, "egress" as const);
export const filesystem = fc.constantFrom("none" as const, "scratch" as const, "assets_ro" as const);
export const mount = fc.record({
  source: fc.constantFrom("/data", "/work"),
  target: fc.constant("/in"),
  writable: fc.boolean(),
});

export const level: fc.Arbitrary<GrantLevel> = sparse(
  fc.record({
    class: maybe(isolation),
    network: maybe(network),
    allowed_domains: maybe(domains),
    filesystem: maybe(filesystem),
    mounts: maybe(fc.boolean()),
    gateway_api_scopes: maybe(scopes),
    secret_slots: maybe(slots),
    capabilities: maybe(names),
    tools: maybe(names),
  }),
);
const requested = sparse(
  fc.record({
    network,
    filesystem,
    gateway_api_scopes: scopes,
    secret_slots: slots,
    allowed_domains: maybe(domains),
  }),
);
const policy = sparse(
  fc.record({
    allowed_domains: maybe(domains),
    mounts: maybe(fc.uniqueArray(mount, { maxLength: 2, selector: (item) => item.source })),
    capabilities: maybe(names),
    permissions: maybe(
      fc.record({
        network: maybe(network),
        filesystem: maybe(filesystem),
        gateway_api_scopes: maybe(scopes),
      }),
    ),
  }),
);
export const narrow: fc.Arbitrary<InvokeBody["narrow"]> = maybe(
  sparse(
    fc.record({
      network: maybe(fc.constant("none" as const)),
      allowed_domains: maybe(domains),
      filesystem: maybe(fc.constant("none" as const)),
      secret_slots: maybe(slots),
      gateway_api_scopes: maybe(scopes),
      tools: maybe(names),
    }),
  ),
);
export const exported = fc.record({ requested, policy, isolation, capabilities: names });
export type RandomExport = typeof exported extends fc.Arbitrary<infer T> ? T : never;
export const host = fc.record({
  min_class: maybe(isolation),
  network: maybe(network),
  default_domains: maybe(domains),
  mounts: maybe(fc.boolean()),
});
