/**
 * A folder on the gateway's machine that the operator trusts: its tool files become tools (`workspace`), or the whole
 * folder becomes a plugin (`plugin`). Not the `workspace` in the key of a session.
 */
import { z } from "zod";
import { DigestSchema, TimestampSchema } from "./scalars.ts";

export const WorkspaceFileSchema = z.object({ path: z.string(), size: z.int(), sha256: z.string() });

export const WorkspaceChangeSchema = z.object({
  path: z.string(),
  change: z.enum(["added", "changed", "removed"]),
  size: z.int(),
});

export const WorkspaceFolderSchema = z.object({
  id: z.string(),
  path: z.string(),
  /** workspace: only its `tools` folder, with precedence over built-in tools. plugin: the whole folder, as a plugin. */
  kind: z.enum(["workspace", "plugin"]),
  /** Whether later edits are trusted as well, and loaded when they are saved. */
  watch: z.boolean(),
  /** changed: files differ from the trusted ones and are not loaded. missing: the folder cannot be read. */
  state: z.enum(["loaded", "changed", "missing"]),
  package_id: z.string(),
  package_version: z.string(),
  binding_id: z.string(),
  /** Digest of the files last read from disk; the package contains only the files that load. */
  digest: DigestSchema,
  /** Files that do not load, with the reason; their last working version is used if there is one. */
  errors: z.record(z.string(), z.string()),
  changes: z.array(WorkspaceChangeSchema),
  trusted_at: TimestampSchema,
  trusted_by: z.string(),
  loaded_at: TimestampSchema,
});

/** The content of `workspaces.json` in the home, with internal fields. */
export const TrustedFoldersSchema = z.object({
  folders: z.array(
    WorkspaceFolderSchema.omit({ state: true, changes: true }).extend({
      org_id: z.string(),
      project_id: z.string().nullable(),
      /** The files when they were trusted or, with `watch`, when they were last loaded. */
      files: z.array(WorkspaceFileSchema),
      /** Ids of the packages of loaded versions; the current one is last. */
      snapshots: z.array(z.string()),
      /** All bindings of a plugin that is not made of tool files. */
      bindings: z.array(z.string()).optional(),
    }),
  ),
});

/** All files that would be trusted, with the changes since the folder was last trusted. */
export const WorkspaceReviewSchema = z.object({
  path: z.string(),
  kind: z.enum(["workspace", "plugin"]),
  digest: DigestSchema,
  files: z.array(WorkspaceFileSchema),
  changes: z.array(WorkspaceChangeSchema.extend({ text: z.string().nullable() })),
  trusted: WorkspaceFolderSchema.nullable(),
});

export const WorkspaceTrustSchema = z.strictObject({
  path: z.string().min(1).max(4096).describe("an absolute path on the gateway's machine"),
  kind: z.enum(["workspace", "plugin"]).default("workspace"),
  watch: z.boolean().default(false),
  /** Digest of the reviewed files; if the files have changed, nothing is trusted. */
  digest: DigestSchema.optional(),
});

/** An event of a watched folder: a load, a failed load, a frame or other output of a process, or lost events. */
export const WorkspaceActivitySchema = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("loaded"),
    at: TimestampSchema,
    package_id: z.string(),
    package_version: z.string(),
    /** How long the load took; null for a version that was already loaded. */
    duration_ms: z.number().nullable(),
    errors: z.record(z.string(), z.string()),
  }),
  z.object({
    type: z.literal("failed"),
    at: TimestampSchema,
    message: z.string(),
    /** The version that stays in use; null if none was loaded yet. */
    package_version: z.string().nullable(),
  }),
  z.object({
    /** stray_output: text on stdout that is not a frame. */
    type: z.enum(["frame", "stray_output", "stderr"]),
    at: TimestampSchema,
    from: z.enum(["host", "plugin"]),
    /** Without secrets; long texts are truncated. */
    text: z.string(),
  }),
  z.object({ type: z.literal("dropped"), at: TimestampSchema, count: z.number() }),
]);

export type WorkspaceFile = z.infer<typeof WorkspaceFileSchema>;
export type WorkspaceChange = z.infer<typeof WorkspaceChangeSchema>;
export type WorkspaceFolder = z.infer<typeof WorkspaceFolderSchema>;
export type TrustedFolder = z.infer<typeof TrustedFoldersSchema>["folders"][number];
export type WorkspaceReview = z.infer<typeof WorkspaceReviewSchema>;
export type WorkspaceTrust = z.infer<typeof WorkspaceTrustSchema>;
export type WorkspaceActivity = z.infer<typeof WorkspaceActivitySchema>;
