/**
 * The steps before a process may start, in this order: permission from the circuit breaker, exclusive use of the data
 * folder, a slot, verified package files, a launch plan. Acquired resources are released once, when the process has
 * exited.
 */
import { BackplaneError } from "@backplane/contract";
import type { PackageFiles, PackageImage, ProcessRequest } from "@backplane/ports";
import type { Egress, EgressSession } from "../egress/create-egress.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import { makeDataDir } from "../plugin-folders/data-folders.ts";
import type { ScratchFolders } from "../plugin-folders/scratch-folders.ts";
import type { Dialect, HostPrograms } from "../ports/dialect.ts";
import type { LaunchPlan } from "../processes/launch.ts";
import type { LaunchEnvironment } from "../programs/diagnose-launch.ts";
import type { PrivateCopies } from "../programs/private-copies.ts";
import { type Confinement, chooseLifetime } from "../sandbox/confinement.ts";

export interface PlanDeps {
  files: PackageFiles;
  scratch: ScratchFolders;
  confinement: Confinement;
  egress: Egress;
  programs: HostPrograms;
  /** Holds the private copies of `programs`. */
  copies: PrivateCopies;
  environment: LaunchEnvironment;
  /** The parent of all data folders; null if there is none. */
  data_root: string | null;
}

/** The parameters of a process start besides its request. */
export interface ProcessStart {
  /** The scratch folder of the only call of a one-call process, which becomes its home; otherwise null. */
  home: string | null;
  key: string;
  /** Secrets that are passed as environment variables. */
  env: Record<string, string> | null;
  prewarmed?: boolean;
}

/** The steps that the pool implements. */
export interface PreparationSteps {
  /** Throws crash_loop. */
  waitUntilAllowed(): Promise<void>;
  /** Resolves when no other process uses the data folder. */
  waitForFolder(): Promise<void>;
  /** Resolves to false if no call waits for this process any longer, or if no slot is free to prewarm it. */
  takeSlot(): Promise<boolean>;
  releaseSlot(): void;
  refused(refusal: Refusal): void;
  /** The session is held until the worker releases it. */
  attachEgress(session: EgressSession): void;
}

export class LaunchPreparation {
  readonly #deps: PlanDeps;
  readonly #request: ProcessRequest;
  readonly #dialect: Dialect;
  readonly #start: ProcessStart;
  readonly #steps: PreparationSteps;
  #allowed = false;
  #has_slot = false;
  #home: string | null = null;
  #image: PackageImage | null = null;

  constructor(
    deps: PlanDeps,
    request: ProcessRequest,
    dialect: Dialect,
    start: ProcessStart,
    steps: PreparationSteps,
  ) {
    this.#deps = deps;
    this.#request = request;
    this.#dialect = dialect;
    this.#start = start;
    this.#steps = steps;
  }

  /** True once the circuit breaker has allowed the launch. The outcome of the launch must then be reported to it. */
  get allowed(): boolean {
    return this.#allowed;
  }

  async prepare(): Promise<LaunchPlan> {
    // Lets the constructors of the process and the worker finish first.
    await Promise.resolve();
    await this.#steps.waitUntilAllowed();
    this.#allowed = true;
    await this.#steps.waitForFolder();
    this.#has_slot = await this.#steps.takeSlot();
    if (!this.#has_slot) throw new BackplaneError("crashed", "No call waits for this process any longer.");
    return await this.#plan();
  }

  async release(): Promise<void> {
    if (this.#has_slot) this.#steps.releaseSlot();
    this.#image?.release();
    if (this.#home !== null) await this.#deps.scratch.remove(this.#home);
  }

  /**
   * Throws `package.corrupt` when the files of the process differ from the verified ones, and `launch_failed` when one
   * of our host programs was changed.
   */
  async check(): Promise<void> {
    await this.#image?.check();
    if (this.#deps.copies.verify()) return;
    throw new BackplaneError(
      "launch_failed",
      "Another process changed the gateway's own host program while a plugin was started from it.",
      { fix: "Call again: the file was restored. Find out what writes to the gateway's home folder." },
    );
  }

  async #plan(): Promise<LaunchPlan> {
    const { confinement, data_root, egress, files, environment, programs, scratch } = this.#deps;
    const request = this.#request;
    const { package: pkg, grant } = request;
    const { env, home } = this.#start;
    this.#image = await files.open(pkg.digest);
    const { folder } = this.#image;
    const { sandbox, refusal } = confinement.boundaryFor(request);
    if (refusal !== null) throw refusal;
    const launch = await this.#dialect.launch?.(request, {
      folder,
      confined: sandbox !== null,
      programs,
      dataDir: () => makeDataDir(data_root, request),
    });
    const runtime = launch === undefined ? pkg.runtime : { ...pkg.runtime, ...launch };
    const image = runtime.image === undefined ? {} : { image_root: await this.#image.expandRoot!() };
    const data_dir = launch?.data_dir === undefined ? {} : { data_dir: launch.data_dir };
    const lifetime = chooseLifetime(request, this.#dialect);
    if (sandbox !== null) {
      const refused = (refusal: Refusal) => this.#steps.refused(refusal);
      const openEgress = () => {
        const session = egress.open({ grant, refused, held: true });
        this.#steps.attachEgress(session);
        return session;
      };
      const { package_id } = pkg;
      const confine = { sandbox, grant, lifetime, package_id, binds: launch?.binds ?? [], openEgress };
      const secret = env === null ? {} : { secret_env: env };
      return { runtime, folder, home: null, ...image, ...data_dir, confine, ...secret };
    }
    if (lifetime === "pooled" && grant.filesystem === "scratch") this.#home = await scratch.makeForProcess();
    // A tool on the host is the operator's own program and gets the operator's home.
    const operator_home = grant.host === true ? environment.host_paths.home : null;
    if (operator_home !== null || this.#home === null)
      return { runtime, folder, home: operator_home ?? home, ...image, ...data_dir };
    return { runtime, folder, home: home ?? this.#home, scratch: this.#home, ...image, ...data_dir };
  }
}
