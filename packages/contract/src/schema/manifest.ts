/** The manifest, `vai-plugin.toml`. The importers of all dialects produce this form. */
import { z } from "zod";
import { INVOCATION_LIMITS } from "../vocabulary/limits.ts";
import {
  DELEGATION_SCOPES,
  EFFECT_CLASSES,
  EXECUTION_CLASSES,
  FILESYSTEM_ACCESS,
  HARNESS_FIDELITIES,
  HARNESS_KINDS,
  HARNESS_SUPPORTS,
  ISOLATION_MODES,
  isSelfDescribing,
  NETWORK_ACCESS,
  PROTOCOLS,
  RISKS,
  SEMANTIC_EVENTS,
  TOOL_TARGETS,
} from "../vocabulary/vocabulary.ts";
import { EventFilterSchema } from "./event.ts";
import {
  CapabilitySchema,
  DomainSchema,
  ExportIdSchema,
  JsonObjectSchema,
  PackageIdSchema,
  PackagePathSchema,
  SlotSchema,
  VersionSchema,
} from "./scalars.ts";

const uniqueList = <T extends z.ZodType<string>>(item: T) =>
  z
    .array(item)
    .max(64)
    .refine((values) => new Set(values).size === values.length, "list each value once");

export const PermissionsSchema = z.strictObject({
  network: z.enum(NETWORK_ACCESS).default("none"),
  filesystem: z.enum(FILESYSTEM_ACCESS).default("none"),
  gateway_api_scopes: uniqueList(z.enum(DELEGATION_SCOPES)).default([]),
  secret_slots: uniqueList(SlotSchema).default([]),
  /** Domain names that the plugin needs; if absent, the operator decides alone. */
  allowed_domains: uniqueList(DomainSchema).optional(),
  /** The reason for each permission, shown when a person decides. */
  reasons: z.record(z.string(), z.string().max(300)).optional(),
});

/** A name from another program: visible characters and single spaces. */
const ForeignNameSchema = z
  .string()
  .min(1)
  .max(256)
  .regex(
    /^[^\p{C}\p{Z}]+(?: [^\p{C}\p{Z}]+)*$/u,
    "write the name as the plugin does, without control characters or spaces at its ends",
  );

export const RuntimeSchema = z.strictObject({
  protocol: z.enum(PROTOCOLS),
  transport: z.enum(["stdio", "http"]).default("stdio"),
  entrypoint: z.array(z.string().min(1).max(1024)).min(1, "specify the program to start").max(64),
  os: uniqueList(z.enum(["linux", "darwin", "windows"])).optional(),
  arch: uniqueList(z.enum(["amd64", "arm64"])).optional(),
  /** Environment variables of the process; never secrets. */
  env: z
    .record(
      z
        .string()
        .regex(
          /^[A-Za-z_][A-Za-z0-9_]*$/,
          "a variable name may contain only letters, digits and _, and must not start with a digit",
        ),
      z.string().max(4096),
    )
    .default({}),
  /** Set by the gateway for a container image, whose files form the root file system of the process. */
  image: z.strictObject({ workdir: z.string().regex(/^\//).max(4096) }).optional(),
  /** rterm.plugin.v1: the capabilities that the handshake may request; if absent, the binding alone decides. */
  capabilities: uniqueList(CapabilitySchema).optional(),
  /** rterm.plugin.v1: the plugin's id in its handshake, if it differs from the package name. */
  plugin_id: ForeignNameSchema.optional(),
  /** Further fields of an instrument plugin's own manifest. */
  instrument: z
    .strictObject({
      plugin_id: z.string().min(1).max(64),
      author: z.string().min(1).max(120),
      isolation: z.enum(ISOLATION_MODES),
      /** Ids of plugins that must be loaded first. */
      dependencies: uniqueList(z.string().min(1).max(64)).default([]),
      min_hefty_version: VersionSchema.optional(),
    })
    .optional(),
  /** For self-describing protocols: the permissions of the process, which apply to each of its tools. */
  permissions: PermissionsSchema.optional(),
});

const export_base = {
  id: ExportIdSchema,
  display_name: z.string().min(1).max(120).optional(),
  description: z.string().max(4000).optional(),
  execution_class: z.enum(EXECUTION_CLASSES).optional(),
  default_timeout_ms: z.int().min(1).max(86_400_000).default(INVOCATION_LIMITS.default_timeout_ms),
  max_timeout_ms: z.int().min(1).max(86_400_000).optional(),
  max_concurrency: z.int().min(1).max(10_000).optional(),
  config_schema: PackagePathSchema.optional(),
  permissions: PermissionsSchema.default({
    network: "none",
    filesystem: "none",
    gateway_api_scopes: [],
    secret_slots: [],
  }),
};

/** Instructions for a model: a folder with a SKILL.md and the files it refers to. */
export const SkillSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, "use a-z, 0-9 and single dashes")
    .max(64),
  description: z.string().min(1).max(1024),
  /** The folder in the package. */
  path: PackagePathSchema,
});

export const ToolExportSchema = z.strictObject({
  ...export_base,
  kind: z.literal("tool"),
  tool: z.strictObject({
    effect_class: z.enum(EFFECT_CLASSES).default("unknown"),
    streaming: z.boolean().default(false),
    requires_approval: z.boolean().default(false),
    input_schema: PackagePathSchema.optional(),
    output_schema: PackagePathSchema.optional(),
    /** Declared by the author; the host can only raise it. */
    risk: z.enum(RISKS).optional(),
    /** A category that policies can refer to. */
    category: z.string().min(1).max(64).optional(),
    keywords: z.array(z.string().min(1).max(64)).max(64).optional(),
    side_effects: z.array(z.string().min(1).max(300)).max(64).optional(),
    /** Not offered to the model until tool_search has found it. */
    deferred: z.boolean().optional(),
    /** Where the tool requests to run; the request alone grants nothing. */
    target: z.enum(TOOL_TARGETS).optional(),
    /** MCP annotations are untrusted: they can raise the risk but never lower it. */
    hints: JsonObjectSchema.optional(),
    /** Security rules of an instrument, which can deny a call or raise its risk. */
    rules: z.array(JsonObjectSchema).max(64).optional(),
    /** The name in the tool's own dialect, if it differs from the export id. */
    native_name: z.string().min(1).max(256).optional(),
    /** rterm.plugin.v1: the plugin's own name of the tool, if it cannot be an export id. */
    tool_name: ForeignNameSchema.optional(),
    /** Arguments that the server requires as headers, with their path in the input. */
    param_headers: z
      .array(z.object({ header: z.string().max(64), path: z.array(z.string()).min(1).max(32) }))
      .max(64)
      .optional(),
    /** Set if the tool could not be loaded: it is listed, and every call fails with this error. */
    load_error: z.string().max(4000).optional(),
  }),
});

export const HookExportSchema = z.strictObject({
  ...export_base,
  kind: z.literal("hook"),
  hook: z.strictObject({
    subscribes_to: uniqueList(z.enum(SEMANTIC_EVENTS)).min(1, "list at least one event"),
    filter: EventFilterSchema.optional(),
  }),
});

export const CompactorExportSchema = z.strictObject({
  ...export_base,
  kind: z.literal("compactor"),
  compactor: z.strictObject({
    target_context: z.string().min(1).max(64).default("general"),
    supports_pinned_items: z.boolean().default(false),
  }),
});

export const HarnessExportSchema = z.strictObject({
  ...export_base,
  kind: z.literal("harness"),
  harness: z.strictObject({
    mode: z.enum(HARNESS_KINDS).default("composite"),
    fidelity: z.enum(HARNESS_FIDELITIES).default("prompt_replay"),
    supports: uniqueList(z.enum(HARNESS_SUPPORTS)).default([...HARNESS_SUPPORTS]),
  }),
});

export const ExportSchema = z.discriminatedUnion("kind", [
  ToolExportSchema,
  HookExportSchema,
  CompactorExportSchema,
  HarnessExportSchema,
]);

export const ManifestSchema = z
  .strictObject({
    api_version: z.literal("vai.plugin.v1"),
    package_id: PackageIdSchema,
    version: VersionSchema,
    name: z.string().min(1).max(120),
    description: z.string().max(4000).default(""),
    license: z.string().max(120).default(""),
    source: z.string().max(1024).default(""),
    runtime: RuntimeSchema,
    exports: z
      .array(ExportSchema)
      .max(256)
      .refine(
        (list) => new Set(list.map((item) => item.id)).size === list.length,
        "give each export its own id",
      )
      .default([]),
    skills: z
      .array(SkillSchema)
      .max(128)
      .refine(
        (list) => new Set(list.map((item) => item.name)).size === list.length,
        "give each skill its own name",
      )
      .optional(),
  })
  .refine(
    ({ runtime, exports, skills = [] }) =>
      exports.length + skills.length > 0 || isSelfDescribing(runtime.protocol),
    {
      path: ["exports"],
      message: "a package needs at least one export or skill",
    },
  );

export type Permissions = z.infer<typeof PermissionsSchema>;
export type Runtime = z.infer<typeof RuntimeSchema>;
export type PluginExport = z.infer<typeof ExportSchema>;
export type ManifestToolExport = z.infer<typeof ToolExportSchema>;
export type ManifestHookExport = z.infer<typeof HookExportSchema>;
export type ManifestCompactorExport = z.infer<typeof CompactorExportSchema>;
export type Skill = z.infer<typeof SkillSchema>;
export type Manifest = z.infer<typeof ManifestSchema>;
