/**
 * Curated entries of the marketplace, and servers that a public registry lists. An entry describes a package that need
 * not be installed; it is neither a package nor a binding of the gateway.
 */
import { z } from "zod";
import { EXPORT_KINDS } from "../vocabulary/vocabulary.ts";
import { OciReferenceSchema } from "./installation.ts";
import { PermissionsSchema } from "./manifest.ts";
import {
  ExportIdSchema,
  PackageIdSchema,
  PackagePathSchema,
  TimestampSchema,
  VersionSchema,
} from "./scalars.ts";

export const MARKETPLACE_FORMAT = "backplane.marketplace.v1";

const LinkSchema = z
  .string()
  .max(512)
  .regex(/^https:\/\/[^\s"<>]+$/, "must be an https URL");

export const MarketplaceIdSchema = z
  .string()
  .max(64)
  .regex(/^[a-z0-9]+(?:-[a-z0-9]+)*$/, "use a-z, 0-9 and single dashes");

const AvailabilitySchema = z
  .enum(["available", "contract-ready"])
  .describe(
    "`available` can be installed. `contract-ready` cannot: its contract is defined, but no signed artifact is published.",
  );

const EntryShape = {
  id: MarketplaceIdSchema,
  name: z.string().min(1).max(120),
  description: z.string().min(1).max(1_000),
  status: AvailabilitySchema,
  /** Why the entry cannot be installed. */
  reason: z.string().min(1).max(500).nullable().default(null),
  package: z.strictObject({
    package_id: PackageIdSchema,
    version: VersionSchema,
    exports: z
      .array(z.strictObject({ id: ExportIdSchema, kind: z.enum(EXPORT_KINDS) }))
      .min(1)
      .max(64),
  }),
  publisher: z.strictObject({ name: z.string().min(1).max(120), url: LinkSchema.nullable().default(null) }),
  review: z.strictObject({
    status: z.enum(["reviewed", "unreviewed"]),
    reviewed_at: TimestampSchema.nullable().default(null),
    notes: z.string().max(500).nullable().default(null),
  }),
  source: z.strictObject({
    url: LinkSchema.nullable().default(null),
    license: z.string().max(64).nullable().default(null),
    /** The programs and libraries that the package is built on. */
    references: z
      .array(z.strictObject({ title: z.string().min(1).max(120), url: LinkSchema }))
      .max(16)
      .default([]),
  }),
  oci: OciReferenceSchema.regex(/@sha256:[0-9a-f]{64}$/, "must end with the digest of the manifest")
    .nullable()
    .default(null)
    .describe("The pinned artifact."),
  signature: z
    .strictObject({
      key_id: z.string().regex(/^ed25519:[0-9a-f]{32}$/, "must be the id of an Ed25519 key"),
      public_key: z.string().max(2_048).describe("PEM"),
    })
    .nullable()
    .default(null)
    .describe("The key that the artifact is signed with."),
  dependency_lock: z
    .array(z.strictObject({ path: PackagePathSchema, sha256: z.string().regex(/^[0-9a-f]{64}$/) }))
    .max(64)
    .nullable()
    .default(null)
    .describe("The lock files of the package; empty if it has no dependencies."),
  install_policy: z.strictObject({
    scope: z.enum(["project", "org"]).default("project").describe("Where its exports are bound."),
    bind: z.boolean().default(true).describe("False installs the package only."),
  }),
  permissions: PermissionsSchema.prefault({}),
  tokens: z.int().min(0).describe("The tokens that its tool definitions cost in each model call."),
  contract: z
    .strictObject({
      kind: z.enum(EXPORT_KINDS),
      document: z.string().max(120).describe("The page of the documentation that defines it."),
      requirements: z.array(z.string().min(1).max(300)).min(1).max(32),
    })
    .nullable()
    .default(null)
    .describe("The requirements for an adapter, for an entry that is not published yet."),
};

export const MarketplaceEntrySchema = z.strictObject(EntryShape).superRefine((entry, context) => {
  const mustHave = (field: "oci" | "signature" | "dependency_lock" | "reason" | "contract") => {
    if (entry[field] === null)
      context.addIssue({
        code: "custom",
        path: [field],
        message: `is required for the status ${entry.status}`,
      });
  };
  if (entry.status === "contract-ready") {
    mustHave("reason");
    mustHave("contract");
    return;
  }
  mustHave("oci");
  mustHave("signature");
  mustHave("dependency_lock");
  if (entry.review.status !== "reviewed")
    context.addIssue({
      code: "custom",
      path: ["review", "status"],
      message: "must be reviewed for the status available",
    });
});

export const MarketplaceCatalogSchema = z
  .strictObject({
    format: z.literal(MARKETPLACE_FORMAT),
    name: z.string().min(1).max(120),
    entries: z.array(MarketplaceEntrySchema).max(1_000),
  })
  .refine(
    ({ entries }) => new Set(entries.map(({ id }) => id)).size === entries.length,
    "two entries have the same id",
  );

/** Where entries or search results come from, and how old they are. */
export const MarketplaceOriginSchema = z.object({
  name: z.string(),
  location: z.string().describe("`bundled`, a file or a URL."),
  fetched_at: TimestampSchema.nullable(),
  /** True if the copy is used because the location cannot be read now. */
  stale: z.boolean(),
  /** Why the location cannot be read. */
  problem: z.string().nullable(),
});

export const MarketplaceCardSchema = z.object({
  ...EntryShape,
  catalog: MarketplaceOriginSchema.omit({ problem: true }),
  installable: z.boolean(),
  key_trusted: z
    .boolean()
    .nullable()
    .describe("Whether this organization trusts the key; null without a key."),
  /** One sentence for each thing that the package may do. */
  abilities: z.array(z.string()),
  in_use: z.array(z.string()).describe("The versions of the package that the caller's bindings use."),
  upgrades: z
    .array(
      z.object({
        from: z.string(),
        changes: z.array(z.object({ text: z.string(), riskier: z.boolean() })),
      }),
    )
    .describe(
      "What changes from each version in use to the card's version, if that can be installed, one sentence for each " +
        "change. `riskier` marks a change that lets the package do more, or a change of its source.",
    ),
});

export const MarketplaceListSchema = z.object({
  items: z.array(MarketplaceCardSchema),
  catalogs: z.array(MarketplaceOriginSchema),
});

/** A server that a public registry lists. Nobody has reviewed it. */
export const ListedServerSchema = z.object({
  name: z.string(),
  description: z.string(),
  version: z.string(),
  repository: z.string().nullable(),
  /**
   * Arguments of `backplane plugin install`, best first; empty if its packages are of kinds that cannot be installed.
   */
  sources: z.array(z.string()),
  /** Variables that the server requires. */
  variables: z.array(z.object({ name: z.string(), secret: z.boolean() })),
});

export const ServerSearchSchema = z.object({
  items: z.array(ListedServerSchema),
  /** Null if no registry is configured. */
  registry: MarketplaceOriginSchema.nullable(),
});

export type MarketplaceEntry = z.infer<typeof MarketplaceEntrySchema>;
/** The input form: fields with a default may be absent. */
export type MarketplaceCatalog = z.input<typeof MarketplaceCatalogSchema>;
export type MarketplaceOrigin = z.infer<typeof MarketplaceOriginSchema>;
export type MarketplaceCard = z.infer<typeof MarketplaceCardSchema>;
export type MarketplaceList = z.infer<typeof MarketplaceListSchema>;
export type ListedServer = z.infer<typeof ListedServerSchema>;
export type ServerSearch = z.infer<typeof ServerSearchSchema>;
