import { createReadStream } from "node:fs";
import { join } from "node:path";
import { type Operation, requireNotCancelled } from "@backplane/ports";
import { findFiles } from "../tree/read-tree.ts";
import { type CredentialSource, createCredentialCheck } from "./scan-credentials.ts";

/**
 * Throws `package.credential_file` if the package in this folder contains a credential. Its dependencies are not
 * scanned: they belong to other publishers, and keys in them, such as keys for tests, are already public.
 */
export async function refuseOwnCredentials(
  package_folder: string,
  source: CredentialSource,
  operation: Pick<Operation, "signal">,
): Promise<void> {
  const { files } = await findFiles(package_folder);
  const credentials = createCredentialCheck();
  for (const path of files) {
    if (path.startsWith("node_modules/")) continue;
    requireNotCancelled(operation);
    const scan = credentials.scan(path);
    for await (const chunk of createReadStream(join(package_folder, path)) as AsyncIterable<Buffer>)
      scan.push(chunk);
  }
  credentials.assertNone(source);
}
