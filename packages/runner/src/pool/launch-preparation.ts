/**
 * What is seen to before a process may start, in this order: that it is not held back, that nobody else has its folder,
 * a slot, verified bytes, a plan. It keeps what it took on the way, and gives it back once, when the process is gone.
 */
import { BackplaneError } from "@backplane/contract";
import type { PackageFiles, PackageImage } from "@backplane/ports";
import type { Egress, EgressSession } from "../egress/create-egress.ts";
import type { Refusal } from "../egress/destinations/refusals.ts";
import { makeDataDir } from "../plugin-folders/data-folders.ts";
import type { Scratch } from "../plugin-folders/scratch-folders.ts";
import type { Dialect, HostPrograms, ProcessOrder } from "../ports/dialect.ts";
import type { LaunchPlan } from "../processes/launch.ts";
import type { Place } from "../programs/diagnose-launch.ts";
import type { OwnFiles } from "../programs/private-copies.ts";
import { type Confinement, lifetimeOf } from "../sandbox/confinement.ts";

export interface PlanDeps {
  files: PackageFiles;
  scratch: Scratch;
  confinement: Confinement;
  egress: Egress;
  programs: HostPrograms;
  /** Holds what is started of `programs`. */
  own: OwnFiles;
  place: Place;
  /** Where folders that last are; null: nowhere. */
  data_root: string | null;
}

/** What a process is begun with, beside its order. */
export interface Birth {
  /** The scratch folder of its one call. */
  home: string | null;
  key: string;
  /** Secrets that go by environment. */
  env: Record<string, string> | null;
  spare?: boolean;
}

/** What the pool does for it. */
export interface PreparationSteps {
  /** Throws crash_loop. */
  pass(): Promise<void>;
  /** Resolves when its folder is nobody else's. */
  folderFree(): Promise<void>;
  /** False: nobody waits for this process any more. */
  takeSlot(): Promise<boolean>;
  releaseSlot(): void;
  refused(refusal: Refusal): void;
  /** It is held until the pool says otherwise. */
  wayOut(session: EgressSession): void;
}

export class Preparation {
  readonly #deps: PlanDeps;
  readonly #order: ProcessOrder;
  readonly #dialect: Dialect;
  readonly #birth: Birth;
  readonly #steps: PreparationSteps;
  #admitted = false;
  #slot = false;
  #home: string | null = null;
  #image: PackageImage | null = null;

  constructor(deps: PlanDeps, order: ProcessOrder, dialect: Dialect, birth: Birth, steps: PreparationSteps) {
    this.#deps = deps;
    this.#order = order;
    this.#dialect = dialect;
    this.#birth = birth;
    this.#steps = steps;
  }

  /** It counts among the launches: how it ends says something. */
  get admitted(): boolean {
    return this.#admitted;
  }

  async prepare(): Promise<LaunchPlan> {
    // The process and its worker are put together first.
    await Promise.resolve();
    await this.#steps.pass();
    this.#admitted = true;
    await this.#steps.folderFree();
    this.#slot = await this.#steps.takeSlot();
    if (!this.#slot) throw new BackplaneError("crashed", "Nobody waits for this process any more.");
    return await this.#plan();
  }

  async giveBack(): Promise<void> {
    if (this.#slot) this.#steps.releaseSlot();
    this.#image?.release();
    if (this.#home !== null) await this.#deps.scratch.remove(this.#home);
  }

  /** Throws `package.corrupt` when what the process was started from is not what was verified. */
  async check(): Promise<void> {
    await this.#image?.check();
    if (this.#deps.own.confirm()) return;
    throw new BackplaneError(
      "launch_failed",
      "Another process changed the gateway's own host program while a plugin was started from it.",
      { fix: "Call again: the file was restored. Find out what writes into the gateway's home." },
    );
  }

  async #plan(): Promise<LaunchPlan> {
    const { confinement, data_root, egress, files, place, programs, scratch } = this.#deps;
    const order = this.#order;
    const { package: pkg, grant } = order;
    const { env, home } = this.#birth;
    this.#image = await files.open(pkg.digest);
    const { folder } = this.#image;
    const { sandbox, refusal } = confinement.of(order);
    if (refusal !== null) throw refusal;
    const own = await this.#dialect.launch?.(order, {
      folder,
      confined: sandbox !== null,
      programs,
      dataDir: () => makeDataDir(data_root, order),
    });
    const runtime = own === undefined ? pkg.runtime : { ...pkg.runtime, ...own };
    const seen = own?.data_dir === undefined ? {} : { data_dir: own.data_dir };
    const lifetime = lifetimeOf(order, this.#dialect);
    if (sandbox !== null) {
      const refused = (one: Refusal) => this.#steps.refused(one);
      const way_out = () => {
        const session = egress.open({ grant, refused, held: true });
        this.#steps.wayOut(session);
        return session;
      };
      const confine = { sandbox, grant, lifetime, binds: own?.binds ?? [], way_out };
      const secret = env === null ? {} : { secret_env: env };
      return { runtime, folder, home: null, ...seen, confine, ...secret };
    }
    if (lifetime === "pooled" && grant.filesystem === "scratch") this.#home = await scratch.makeForProcess();
    // On the host itself it is the operator's own program, with the operator's home.
    const own_home = grant.host === true ? place.surroundings.home : null;
    return { runtime, folder, home: own_home ?? home ?? this.#home, ...seen };
  }
}
