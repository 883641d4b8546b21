"""Your network in PyTorch, trained by DAgger: killed at any moment, it goes on to the same bytes.

    pip install '.[torch]'
    python examples/torch_student.py

The module is yours, and so may be the optimiser. Who is asked, what is kept and what it cost is the
package's.
"""

import shutil

import torch

import understudy

torch.set_num_threads(1)  # for a network as small as this, more threads only wait for each other
SETTINGS = {"rounds": 6, "steps_per_round": 200, "ask": "distance:20", "max_iterations": 300, "episodes": 5}


def network() -> torch.nn.Module:
    """From what CartPole shows, standardised, to a number for each of its two actions."""
    body = [torch.nn.Linear(4, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 2)]
    return torch.nn.Sequential(*body)


def expert(observation) -> int:
    """Push the cart to the side to which the pole falls."""
    return int(observation @ [0.1, 0.2, 3.0, 1.0] > 0)


def main() -> None:
    shutil.rmtree("runs/torch-student", ignore_errors=True)
    student = understudy.students.torch(network)
    run = understudy.Run("CartPole-v1", expert=expert, policy=student, out="runs/torch-student", **SETTINGS)
    with run:
        for row in run:
            print(f"round {row['round']}: {row['labels']} labels, loss {row['loss']:.3f}")
            if row["round"] == 3:
                break  # the power fails
    with understudy.Run(out="runs/torch-student", expert=expert, policy=student, resume=True) as run:
        for row in run:
            print(f"round {row['round']}: {row['labels']} labels, loss {row['loss']:.3f}")
        print(f"return {run.finish().evaluation.mean:.0f} of 500")
    policy = understudy.load("runs/torch-student", policy=student).policy
    print("action", policy([0.0, 0.0, 0.1, 0.0]), "of a network that was read from the folder")


if __name__ == "__main__":
    main()
