import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { programDiskFault } from "../../src/files/program-disk-fault.ts";

verifies("fault.disk", "recognizes a full or failing disk in the output of npm, pip and uv", () => {
  const npm = "npm error code ENOSPC\nnpm error syscall write\nnpm error errno -28\n";
  expect(programDiskFault("npm", npm)).toMatchObject({
    code: "store.unavailable",
    message: expect.stringMatching(/^There is no space left on the disk of the files that npm writes/),
  });
  const pip = "ERROR: Could not install packages due to an OSError: [Errno 122] Disk quota exceeded\n";
  expect(programDiskFault("pip", pip)?.message).toMatch(/^The disk quota of .* is used up\.$/);
  const uv = "error: failed to create directory `/home/tools`: No space left on device (os error 28)\n";
  expect(programDiskFault("uv", uv)?.message).toMatch(
    /^There is no space left on the disk of the files that uv/,
  );
  for (const other of ["npm error code E404\n", "[Errno 281]", "a package named ENOSPC", ""])
    expect(programDiskFault("npm", other)).toBeNull();
});
