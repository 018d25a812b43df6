/** The oci section of the configuration: how registries of packages are reached. */
import { createAddressCheck } from "@backplane/runner";
import type { PackageImporterOptions } from "@backplane/supply";
import { z } from "zod";

const REGISTRY = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;
const RegistrySchema = z.string().regex(REGISTRY, "must be a host with an optional port, such as ghcr.io");
const MirrorSchema = z
  .string()
  .refine(
    (text) =>
      REGISTRY.test(text.split("/", 1)[0]!) && !/\/(?:\/|$)/.test(text) && /^[a-z0-9._:/[\]-]+$/.test(text),
    "must be a host with an optional port and path, such as mirror.example.com/ghcr",
  );

export const OciSchema = z
  .strictObject({
    /** The mirrors of each registry, which are tried in this order before the registry itself. */
    mirrors: z.record(RegistrySchema, z.array(MirrorSchema).max(8)).default({}),
    /** Registries and mirrors that are reached without TLS. */
    insecure: z.array(RegistrySchema).default([]),
  })
  .prefault({});

/** Requests to registries follow the same address rules as other requests from the gateway (sec.provider-egress). */
export function toRegistryOptions(
  { mirrors, insecure }: z.infer<typeof OciSchema>,
  allow_private: readonly string[],
): NonNullable<PackageImporterOptions["registries"]> {
  const fix = (name: string) =>
    `The operator can allow it: egress.allow_private = ["${name}"] in backplane.toml.`;
  const check = createAddressCheck({ operator_allows: allow_private, fix });
  return { mirrors, insecure, addresses: (destination) => check.resolveAddresses(destination, []) };
}
