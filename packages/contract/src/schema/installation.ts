import { z } from "zod";
import { PLUGIN_CATEGORIES } from "../vocabulary/bus-kinds.ts";
import { WHOLE_PACKAGE } from "../vocabulary/vocabulary.ts";
import { BindingPolicySchema, BindingSchema, RolloutSchema } from "./binding.ts";
import { ManifestSchema } from "./manifest.ts";
import { LeftOutSchema, PackageSchema } from "./package.ts";
import { ProvenanceSchema } from "./provenance.ts";
import { JsonObjectSchema, SecretRefSchema, SlotSchema } from "./scalars.ts";

export const OciReferenceSchema = z
  .string()
  .max(1_024)
  .regex(/^oci:\/\/./, "must be oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:…");

const SlotsSchema = z
  .array(SlotSchema)
  .max(64)
  .default([])
  .describe("Slots for the servers in addition to those that their entries refer to.");

/** The sources that a request can specify. An archive is sent as the body of the request instead. */
export const InstallationSourceSchema = z.discriminatedUnion("kind", [
  z
    .strictObject({
      kind: z.literal("folder"),
      path: z.string().regex(/^\/./, "must be an absolute path"),
    })
    .describe("A folder on the host; admin token only."),
  z
    .strictObject({
      kind: z.literal("npm"),
      spec: z
        .string()
        .regex(/^[@a-z0-9]/, "must be the name of a package, such as @scope/server@1.2.3")
        .max(256),
      args: z.array(z.string().max(4_096)).max(256).default([]).describe("Arguments of the server."),
      secret_slots: SlotsSchema,
    })
    .describe("An MCP server from the npm registry."),
  z
    .strictObject({
      kind: z.literal("pypi"),
      spec: z
        .string()
        .regex(/^[A-Za-z0-9]/, "must be the name of a package, such as mcp-server-time==1.2.3")
        .max(256),
      script: z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be the name of a console script")
        .max(128)
        .optional()
        .describe("The program to start. Default: the one named after the package, or the only one."),
      args: z.array(z.string().max(4_096)).max(256).default([]).describe("Arguments of the server."),
      secret_slots: SlotsSchema,
    })
    .describe("An MCP server from the Python package index."),
  z
    .strictObject({
      kind: z.literal("oci"),
      reference: OciReferenceSchema,
    })
    .describe("A package in an OCI registry."),
  z
    .strictObject({
      kind: z.literal("image"),
      reference: z
        .string()
        .regex(/^[A-Za-z0-9]/, "must be the name of an image, such as ghcr.io/acme/server:1.2")
        .max(1_024),
      args: z.array(z.string().max(4_096)).max(256).default([]).describe("Arguments of the server."),
      secret_slots: SlotsSchema,
    })
    .describe("An MCP server in a container image."),
  z
    .strictObject({
      kind: z.literal("mcp_url"),
      name: z.string().min(1).max(120).describe("The name of the server, whose tools are named mcp_NAME_…."),
      url: z.string().min(1).max(2_048),
      headers: z.record(z.string().max(256), z.string().max(8_192)).default({}),
      secret_slots: SlotsSchema,
    })
    .describe("A remote MCP server."),
  z
    .strictObject({
      kind: z.literal("mcp_json"),
      document: JsonObjectSchema.describe("The content of the mcp.json."),
      file: z
        .string()
        .min(1)
        .max(255)
        .default("mcp.json")
        .describe("The name of the document, for error messages."),
      secret_slots: SlotsSchema,
    })
    .describe("All servers of an mcp.json."),
]);

/** The bindings that an installation creates, and their settings. */
export const InstallationSettingsSchema = z.strictObject({
  bind: z
    .boolean()
    .optional()
    .describe(
      "True binds every export, and false binds nothing. By default, only sources that describe their own tools are bound: tool files, instruments, MCP servers and Agent Plugins.",
    ),
  org_wide: z
    .boolean()
    .optional()
    .describe("True binds for the whole organization instead of the caller's project."),
  strict: z.boolean().optional().describe("True installs nothing if a part of the source cannot be used."),
  allow_scripts: z
    .array(z.string().min(1).max(214))
    .max(64)
    .optional()
    .describe(
      "Dependencies of servers from npm whose install scripts may run. They run in the sandbox, without network access or secrets.",
    ),
  allow_builds: z
    .array(z.string().min(1).max(214))
    .max(64)
    .optional()
    .describe(
      "Dependencies of servers from the Python index that may be built from their source archives if they have no wheel. They are built in the sandbox, without network access or secrets.",
    ),
  accept_source: z
    .boolean()
    .optional()
    .describe(
      "True accepts a package from a registry whose manifest declares another repository as its source.",
    ),
  signature: JsonObjectSchema.optional().describe(
    "The content of marketplace.signature.json, for a folder or an archive.",
  ),
  allow_downgrade: z
    .boolean()
    .optional()
    .describe("True installs a signed package that is older than one that was installed before."),
  dry_run: z
    .boolean()
    .optional()
    .describe(
      "True checks everything that the installation would check, and responds with what it would store. Nothing is stored or started, and no code of the source runs.",
    ),
  config: JsonObjectSchema.optional(),
  secrets: z.record(SlotSchema, SecretRefSchema).optional(),
  rollout: RolloutSchema.optional(),
  policy: BindingPolicySchema.optional(),
});

export const InstallationRequestSchema = InstallationSettingsSchema.extend({
  source: InstallationSourceSchema,
});

const SourceKindSchema = z.enum(["package", "agent_plugin", "mcp_servers", "kernel_plugins"]);

/** The packages and bindings that one transaction has stored or, after a dry run, would store. */
export const InstallationSchema = z.object({
  kind: SourceKindSchema,
  dry_run: z
    .literal(true)
    .optional()
    .describe("Nothing was stored. The ids of new packages and bindings are placeholders."),
  /** The Agent Plugin that the packages come from. */
  plugin: z.object({ name: z.string(), version: z.string() }).optional(),
  packages: z.array(
    z.object({
      package: PackageSchema,
      /** False if the same bytes were already installed. */
      created: z.boolean(),
    }),
  ),
  bindings: z.array(
    z.object({
      binding: BindingSchema,
      /** `moved` from another version. `unchanged` if the export was bound to this version; its settings are kept. */
      change: z.enum(["created", "moved", "unchanged"]),
    }),
  ),
  upgrade: z
    .object({
      package_id: z.string(),
      package_version: z.string(),
      in_use: z.array(z.string()),
      org_wide: z.boolean(),
    })
    .optional()
    .describe(
      "Present if an installation from the marketplace should bind a package that is bound already in other versions. " +
        "Nothing was bound: an upgrade starts the version before it moves the bindings (`POST /v1/plugin-bindings:upgrade`).",
    ),
  left_out: z.array(LeftOutSchema),
  notes: z.array(z.string()),
});

/** Describes a source without installing it. */
export const SourceInspectionSchema = z.object({
  kind: SourceKindSchema,
  plugin: z.object({ name: z.string(), version: z.string() }).optional(),
  packages: z.array(
    z.object({
      name: z.string(),
      package_id: z.string(),
      version: z.string(),
      source: z
        .string()
        .optional()
        .describe("This version as `plugin install` accepts it; only for packages of the Python index."),
      secret_slots: z.array(z.string()),
      /** The exports that `bind` binds. */
      exports: z.array(z.string()).describe(`\`${WHOLE_PACKAGE}\` means all tools of the package.`),
      /** Whether the exports are bound even if the request does not set `bind`. */
      binds: z.boolean(),
      /** Only for packages from npm. */
      provenance: ProvenanceSchema.optional(),
      manifest: ManifestSchema.optional().describe(
        "The exports and permissions of the package; absent for a source without a manifest, such as a server from a registry.",
      ),
    }),
  ),
  /** Kernel plugins, which are installed with `POST /v1/plugins:install`. */
  plugins: z.array(
    z.object({
      name: z.string(),
      version: z.string(),
      category: z.enum(PLUGIN_CATEGORIES),
      source: z.string(),
      /** Only for packages from npm. */
      provenance: ProvenanceSchema.optional(),
    }),
  ),
  left_out: z.array(LeftOutSchema),
  notes: z.array(z.string()),
});

/** The input form: fields with a default may be absent. */
export type InstallationRequest = z.input<typeof InstallationRequestSchema>;
export type InstallationSettings = z.infer<typeof InstallationSettingsSchema>;
export type Installation = z.infer<typeof InstallationSchema>;
export type NamedSource = z.infer<typeof InstallationSourceSchema>;
export type SourceInspection = z.infer<typeof SourceInspectionSchema>;
