"""The paper's baselines for link prediction, each as a method that is fitted to a task and then scores candidates.

`temporal` trains graph networks over neighbourhoods in the past, TGAT among them; `autoencoder` and `skipgram` make one
vector a node from the training graph, and `static` scores pairs by them.
"""
