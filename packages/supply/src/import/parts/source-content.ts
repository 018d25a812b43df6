/** The content of a source: its parts, each of which becomes a package. */
import type { Installation, LeftOut, SourceInspection } from "@backplane/contract";
import type { ImportedPackage, SourcePart } from "@backplane/ports";

export interface ContentPart extends SourcePart {
  /** Describes the package before it is imported. */
  preview: SourceInspection["packages"][number];
  importPart(): Promise<ImportedPackage>;
}

export interface SourceContent extends Pick<Installation, "kind" | "plugin"> {
  parts: readonly ContentPart[];
  left_out: readonly LeftOut[];
  notes: readonly string[];
  /** Kernel plugins are listed but not imported. */
  plugins?: SourceInspection["plugins"];
}

/** An MCP server from the npm registry. */
export interface NpmServerSource {
  spec: string;
  /** The program of the package that the command specifies. */
  program?: string | undefined;
  secret_slots: readonly string[];
}

/** An MCP server from the Python index. */
export interface PythonServerSource {
  spec: string;
  /** The console script to start, if not the one that uvx would start. */
  script?: string | undefined;
  /** A module to run instead, as `python -m` does. */
  module?: string | undefined;
  secret_slots: readonly string[];
}

/** An MCP server in a container image. */
export interface ImageServerSource {
  reference: string;
  /** Whether the binding has arguments, which replace the command of the image. */
  with_args: boolean;
  secret_slots: readonly string[];
}

/** Imports each part of a source like any other package. */
export interface PartImporters {
  npm(server: NpmServerSource): Promise<ImportedPackage>;
  pypi(server: PythonServerSource): Promise<ImportedPackage>;
  image(server: ImageServerSource): Promise<ImportedPackage>;
  bytes(bytes: AsyncIterable<Uint8Array>): Promise<ImportedPackage>;
  /** Imports a package that consists of only its manifest. */
  manifest(text: string): Promise<ImportedPackage>;
}
