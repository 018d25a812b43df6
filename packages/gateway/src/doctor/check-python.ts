import { PLUGIN_PATH } from "@backplane/runner";
import { findPythonTools, missingPip } from "@backplane/supply";
import type { DoctorCheck } from "./check.ts";

/** The status is always ok, because only packages from a Python index need these programs. */
export async function checkPython(
  gateway_path = process.env.PATH ?? "",
  plugin_path: readonly string[] = PLUGIN_PATH,
): Promise<DoctorCheck> {
  const row = { name: "python", status: "ok" } as const;
  try {
    const { python, version, pip, uv } = await findPythonTools({ plugin_path, gateway_path, env: {} });
    if (pip === null && uv === null) throw missingPip(python);
    const installer = pip === null ? "uv, which fetches pip" : "pip";
    return { ...row, message: `${python} (${version}) with ${installer}` };
  } catch (error) {
    const { fix } = error as { fix?: string };
    const remedy = fix === undefined ? "" : ` To install them: ${fix}`;
    return { ...row, message: `pypi: packages cannot be installed. ${(error as Error).message}${remedy}` };
  }
}
