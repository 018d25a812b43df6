/**
 * Packages in every form: imports, packs, signs and publishes them, stores their content, checks their provenance and
 * compiles their schemas. Also installs kernel plugins, reads the marketplace and watches trusted folders.
 */
export { UNPACK_LIMITS, type UnpackLimits } from "./archive/limits.ts";
export { unpackArchive } from "./archive/unpack-archive.ts";
export { openArtifactStore } from "./content/artifact-store.ts";
export { type ContentStore, openContentStore, type Staging } from "./content/content-store.ts";
export { type InspectedTree, inspectContent } from "./content/inspect-content.ts";
export {
  type ShareContentOptions,
  type SharedContentStore,
  shareContent,
} from "./content/share-content.ts";
export { openPackageImages, type PackageImages, type PackageImagesOptions } from "./images/package-images.ts";
export { createPackageImporter, type PackageImporterOptions } from "./import/create-package-importer.ts";
export { buildServerManifest, type ServerDraft } from "./import/mcp/server-manifest.ts";
export { computeCodeDigest } from "./kernel-plugins/code-digest.ts";
export {
  createPluginSources,
  type PluginSources,
  type PluginSourcesOptions,
} from "./kernel-plugins/create-plugin-sources.ts";
export type { HostPlatform } from "./manifest/host-platform.ts";
export { MANIFEST_FILE, readManifest } from "./manifest/read-manifest.ts";
export { createMarketplaceCatalogs } from "./marketplace/marketplace-catalogs.ts";
export { type InstallSource, validateInstallSource } from "./npm/install-source.ts";
export { createNpm, type Npm } from "./npm/npm-command.ts";
export type { Descriptor, ImageIndex, ImageManifest } from "./oci/descriptors.ts";
export { type OpenedLayout, openAsLayout } from "./oci/open-layout.ts";
export { type PackedLayout, packLayout, tarLayout } from "./oci/pack-layout.ts";
export { type PluginArtifact, readPluginArtifact } from "./oci/plugin-artifact.ts";
export { pullLayout } from "./oci/pull-layout.ts";
export { type PushedPackage, pushLayout } from "./oci/push-layout.ts";
export { formatReference, type OciReference, parseReference, requireSameSource } from "./oci/reference.ts";
export {
  createRegistryClient,
  type FetchedManifest,
  type RegistryClient,
  type RegistryClientOptions,
} from "./oci/registry-client.ts";
export { type PackedFolder, packFolder } from "./pack/pack-folder.ts";
export { generateSigningKey, type SigningKey, signPackage } from "./pack/sign-package.ts";
export {
  type CheckProvenance,
  createProvenanceCheck,
  type ProvenanceOptions,
} from "./provenance/check-provenance.ts";
export { createTrustRoot, type TrustRoot, type TrustRootOptions } from "./provenance/trust-root.ts";
export { findPythonTools, missingPip } from "./pypi/find-pip.ts";
export { createPip, type Pip, PYPI_URL, type PythonOptions } from "./pypi/pip-command.ts";
export { type ClosableSchemas, createSchemas, type SchemasOptions } from "./schemas/create-schemas.ts";
export { computeTreeDigest } from "./tree/read-tree.ts";
export type { TreeFile, TreeListing } from "./tree/tree-listing.ts";
export { createFolderAccess } from "./workspace-folders/create-folder-access.ts";
