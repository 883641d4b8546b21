"""A robot of your own whose expert answers tomorrow: late, some states at a time, in any order.

    python examples/late_expert.py

The robot drives all day and sends a question: the states on which it wants an opinion. Answers come by and
by, through as many processes as it takes; the file student.safetensors keeps what was learnt, the open
question and every answer. The order in which the answers came changes nothing.
"""

import gymnasium as gym
import numpy as np

from understudy import Understudy

robot = gym.make("CartPole-v1")  # yours: anything that can be stepped
SPACES = robot.observation_space, robot.action_space


def drive(student: Understudy, steps: int, seed: int) -> tuple[np.ndarray, float]:
    """The states of a day, and how long the robot stood on average."""
    state, _ = robot.reset(seed=seed)
    visited, falls = [], 1
    for _ in range(steps):
        visited.append(state)
        state, _, fell, late, _ = robot.step(student.act(state))
        if fell or late:
            falls, (state, _) = falls + fell, robot.reset()
            student.reset()  # the next observation begins an episode
    return np.array(visited), steps / falls


def opinion(states: np.ndarray) -> np.ndarray:
    """A colleague's: push the cart to the side to which the pole falls."""
    return (states @ [0.1, 0.2, 3.0, 1.0] > 0).astype(int)


def main() -> None:
    post = np.random.default_rng(0)
    settings = {"policy": "linear", "ask": "distance:20", "rounds": 5, "steps_per_round": 400}
    Understudy(*SPACES, **settings).save("student")
    for day in range(5):
        student = Understudy.load("student", *SPACES)
        states, stood = drive(student, 400, seed=day)
        question = student.choose(states)
        student.save("student")
        # Each letter has the question's number, places in it, and what the colleague says of those states.
        letters = np.array_split(post.permutation(len(question.index)), 3)
        for places in letters:
            answer = opinion(states[question.index][places])
            student = Understudy.load("student", *SPACES)  # tomorrow, in another process
            missing = student.answer(student.open[question.id], places, answer)
            student.save("student")
        assert not missing
        row = student.learn(student.open[question.id])
        student.save("student")
        agreed = f"{row['agreement']:.2f} of the last ones were as expected"
        print(f"day {day + 1}: stood {stood:3.0f} steps, {row['labels']:3} labels so far, {agreed}")
    print(f"day 6: stood {drive(student, 400, seed=5)[1]:3.0f} steps")


if __name__ == "__main__":
    main()
