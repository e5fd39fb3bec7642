"""What is run beside loft, and over which weights: shared by bench/peers/run and bench/peers/accuracy."""
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

# loft's arms: activations in 16 bits (the default) and 8, weights read from the checkpoint's layout and packed into panels at first use.
LOFT = {
    "loft a16": [],
    "loft a16 packed": ["--cpu-repack", "on"],
    "loft a8": ["--qmm-activations", "a8"],
    "loft a8 packed": ["--qmm-activations", "a8", "--cpu-repack", "on"],
}

# Peers' settings worth running: what design notes and measurements found fastest for some model.
PEERS = {
    "llama": ("llama-bench", []),
    "ik": ("ik-bench", ["-fa", "1", "-rtr", "0"]),
    "ik rtr": ("ik-bench", ["-fa", "1", "-rtr", "1"]),
}

# model: its loft checkpoint (a folder, or arguments of `loft synth`), the GGUF it comes from, the peers' types.
# ik_llama.cpp is not run on Q4_1 with k % 128 != 0: it drops columns there and computes wrong prompts.
MODELS = {
    "smollm2": dict(loft=ROOT / "models/SmolLM2-135M-Instruct-4bit", gguf=ROOT / ".cache/models/smollm2-135m-instruct-q4_1.gguf",
                    types={"as shipped (Q4_1)": ["llama"], "Q4_0": ["llama", "ik", "ik rtr"]}),
    "gemma-270m": dict(loft=ROOT / "models/gemma-3-270m", gguf=ROOT / ".cache/models/gemma-3-270m-q4_k_m.gguf",
                       types={"as shipped (Q4_K_M)": ["llama", "ik", "ik rtr"]}),
    "llama-3.2-1b": dict(synth="llama-3.2-1b", types={"Q4_0": ["llama", "ik", "ik rtr"], "Q4_1": ["ik"], "Q4_K_M": ["llama", "ik rtr"]}),
    "gemma-3-1b": dict(synth="gemma-3-1b", types={"Q4_0": ["llama", "ik", "ik rtr"], "Q4_1": ["ik"]}),
}


def sh(*command, **more):
    return subprocess.run([str(c) for c in command], check=True, **more)


def peer_file(name, model, kind, peers):
    """The GGUF of that type, made once."""
    if kind.startswith("as shipped"):
        return model["gguf"]
    folder = peers / "models"
    folder.mkdir(exist_ok=True)
    out = folder / f"{name}-{kind}.gguf"
    if out.exists():
        return out
    source = model.get("gguf")
    if source is None:
        source = folder / f"{name}-f16.gguf"
        if not source.exists():
            sh(peers / "venv/bin/python", ROOT / "bench/peers/make_gguf.py", model["synth"], source)
    part = out.with_suffix(".part")
    sh(peers / "bin/llama-quantize", "--allow-requantize", source, part, kind, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    part.rename(out)
    return out


def loft_folder(name, model, options):
    if "loft" in model:
        return model["loft"]
    folder = options.peers / "models" / f"{name}-4bit-g64"
    if not folder.exists():
        sh(options.loft, "synth", model["synth"], folder, "-q")
    return folder


def chip():
    for line in open("/proc/cpuinfo"):
        if line.startswith(("model name", "CPU part")):
            return line.split(":")[1].strip()
    return platform.machine()


def commit():
    return subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def shown_command(program, arguments):
    """What the user typed, without the folders of this machine."""
    return " ".join([program, *(pathlib.Path(a).name if a.startswith("/") else a for a in arguments)])
