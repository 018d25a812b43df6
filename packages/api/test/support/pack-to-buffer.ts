/** Packs the folder of a package as a client does for an upload. */
import { Writable } from "node:stream";
import { packFolder } from "@backplane/supply";

export async function packToBuffer(folder: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  await packFolder(folder, sink);
  return Buffer.concat(chunks);
}
